/* Times by the CF conventions, version 1.11, 4.4: "hours since 1900-01-01 00:00". */
#ifndef DLDATA_CF_TIME_H
#define DLDATA_CF_TIME_H
#include <stdbool.h>
#include <stddef.h>

/* Writes the time of a number of these units as "2020-01-31 06:00", of the calendar that most files
 * have (proleptic Gregorian). False: the units are no time since a date. */
bool cf_time(const char *units, double number, char *out, size_t room);
#endif
