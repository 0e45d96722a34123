/* config/lora_section.h: the section [lora], a short form of an adapter.
 *
 *     [lora]                          [adapter.lora]
 *     rank = 8                        plugin = lora
 *     targets = q, v, router    is    rank = 8
 *     experts = yes                   at = attention.q, attention.v, router.*, expert.*
 *                                     [train]
 *                                     freeze = *        (unless train.freeze is set)
 *
 * Other keys are those of [adapter.lora], which may stand beside it. */
#ifndef MF_CONFIG_LORA_SECTION_H
#define MF_CONFIG_LORA_SECTION_H

#include "base/text/ini.h"

/* Whether the section is this one. */
bool mf_lora_section(const char *section);
/* Adds the sections that [lora] stands for, still without its keys; at: where the section is
 * first named. */
int mf_lora_begin(mf_ini *to, const mf_ini_entry *at);
/* Adds the entries that the i-th entry of `from`, one of this section, stands for. It is
 * refused if router or experts is neither yes nor no, or there are too many targets. */
int mf_lora_put(mf_ini *from, int i, mf_ini *to);

#endif
