/* Notes and warnings about a run's data, before it begins. */
#ifndef DLC_DATA_NOTES_H
#define DLC_DATA_NOTES_H
#include "compiler/session.h"
#include "runtime/data/dataset.h"

/* Logs how many classes training and validation have. Warns of classes that occur in validation and
 * not in training. The session's graphs are as the front end built them; the data sets are open.
 * Errors: those of reading labels. */
bool dl_data_notes(const dl_session *s, const dlr_dataset *train, const dlr_dataset *valid,
                   dl_error *err);
#endif
