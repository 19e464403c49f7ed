/* The commands of `dldata`: each takes the arguments behind its name; false with the error that
 * ends the program. */
#ifndef DLDATA_COMMANDS_H
#define DLDATA_COMMANDS_H
#include "ir/base/status.h"

typedef bool command(int argc, char **argv, dl_error *err);
command command_nbody, command_weather, command_images, command_fields, command_inspect;
#endif
