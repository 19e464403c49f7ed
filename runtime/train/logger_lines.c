/* Log lines in the wording of a style (runtime/report/record.h). */
#include "runtime/base/memory.h"
#include "runtime/formats/log.h"
#include "runtime/train/logger.h"

void dlr_logger_lines(const char *lines, const dlr_record_numbers *numbers) {
    dl_buf line = {0};
    for (int i = 0; dlr_record_line(&line, lines, i, numbers); i++, line.n = 0)
        dlr_log_info("%s", line.at);
    dl_buf_free(&line);
}

void dlr_logger_process(const dlr_run_ranks *ranks, const char *lines) {
    dlr_memory_use use = dlr_memory_used();
    dlr_logger_lines(lines, &(dlr_record_numbers){.rank = ranks->rank,
                                                  .ranks = ranks->size,
                                                  .memory = use.now / 0x1p30,
                                                  .most_memory = use.most / 0x1p30});
}
