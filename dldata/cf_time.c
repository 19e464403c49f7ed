#include "dldata/cf_time.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

bool cf_time(const char *units, double number, char *out, size_t room) {
    static const struct {
        const char *name;
        double seconds;
    } rows[] = {{"sec", 1}, {"s ", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
    const char *since = strstr(units, " since ");
    struct tm t = {0};
    double seconds = 0;
    if (!since || sscanf(since + 7, "%d-%d-%d%*[ T]%d:%d", &t.tm_year, &t.tm_mon, &t.tm_mday,
                         &t.tm_hour, &t.tm_min) < 3)
        return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (seconds == 0 && strncasecmp(units, rows[i].name, strlen(rows[i].name)) == 0)
            seconds = rows[i].seconds;
    t.tm_year -= 1900, t.tm_mon--;
    const double at = (double)timegm(&t) + number * seconds;
    if (seconds == 0 || !(fabs(at) < 1e11)) return false;
    const time_t whole = (time_t)floor(at + 0.5);
    return gmtime_r(&whole, &t) && strftime(out, room, "%Y-%m-%d %H:%M", &t) > 0;
}
