/* config/lora_section.h: the section [lora], a short form of an adapter.
 *
 *     [lora]                          [adapter.lora]
 *     rank = 8                        plugin = lora
 *     targets = q, v, router    is    rank = 8
 *     experts = yes                   at = attention.q, attention.v, router.*, expert.*
 *                                     [train]
 *                                     freeze = *        (unless train.freeze is set)
 *
 * Other keys of [lora] are the keys of [adapter.lora]. A file may contain both sections. */
#ifndef MF_CONFIG_LORA_SECTION_H
#define MF_CONFIG_LORA_SECTION_H

#include "base/text/ini.h"

/* Whether the section is [lora]. */
bool mf_lora_section(const char *section);
/* Adds the sections that [lora] abbreviates, still without its keys. at: the entry that names
 * the section first. */
int mf_lora_begin(mf_ini *to, const mf_ini_entry *at);
/* Adds the entries that replace the i-th entry of `from`, which belongs to [lora]. The entry is
 * refused if router or experts is neither yes nor no, or if there are too many targets. */
int mf_lora_put(mf_ini *from, int i, mf_ini *to);

#endif
