/* sections/run_sections.h: the sections of the INI file about what a run does, as tables of
 * keys with defaults and bounds. */
#ifndef MF_SECTIONS_RUN_SECTIONS_H
#define MF_SECTIONS_RUN_SECTIONS_H

#include "train/train_config.h"

/* The values of train.dtype: "f32", "bf16", NULL. */
extern const char *const mf_config_dtypes[];
extern const mf_section mf_train_section, mf_device_section, mf_report_section, mf_log_section,
    mf_trace_section, mf_parallel_section, mf_calls_section;

#endif
