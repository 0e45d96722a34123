#!/bin/sh
# layers.sh: keys of [moe] that a [block.NAME] may set are read by mf_model_moe (model/model_config.h), which knows
# the block. Code that reads them from [moe] itself would be wrong for models whose blocks differ.
. "$(dirname "$0")/lib.sh"

keys='experts|top_k|capacity_factor|shared_experts|shared_hidden|renormalize|latent|latent_norm'
# The configuration itself, and the initial values of the live options of [moe].
home='core/model/layer_config.c core/model/model_config.c'

report "blocks' keys of [moe] are read by mf_model_moe" "$(sources core lib tools -- '*.[ch]' | while read -r file; do
    case " $home " in *" $file "*) continue ;; esac
    sed 's,/\*.*\*/,,; s/"[^"]*"//g' "$srcdir/$file" | grep -nE "(->|\.)moe\.($keys)\>|&[a-z>_.-]+->moe\>;" |
        grep -vE '^[0-9]+: *(/?\*|m->(capacity_factor|top_k) = )' | sed "s,^,$file:,"
done)"
done_testing
