/* Log lines in the wording of a style (runtime/report/record.h). */
#include "runtime/base/memory.h"
#include "runtime/formats/log.h"
#include "runtime/train/train_parts.h"

void dlr_run_log_lines(const char *lines, const dlr_record_numbers *numbers) {
    dl_buf line = {0};
    for (int i = 0; dlr_record_line(&line, lines, i, numbers); i++, line.n = 0)
        dlr_log_info("%s", line.at);
    dl_buf_free(&line);
}

void dlr_run_log_process(const dlr_train_options *o, const char *lines) {
    dlr_memory_use use = dlr_memory_used();
    dlr_run_log_lines(lines, &(dlr_record_numbers){.rank = o->ranks.rank,
                                                   .ranks = o->ranks.size,
                                                   .memory = use.now / 0x1p30,
                                                   .most_memory = use.most / 0x1p30});
}
