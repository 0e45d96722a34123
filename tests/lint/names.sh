#!/bin/sh
# names.sh: core names no plugin. The names are those of the files in plugins/; a finding is such a
# name as a whole string literal.
. "$(dirname "$0")/lib.sh"

# FILES:NAME, with the reason why the word has another meaning there.
allowed=$(
    cat <<'END'
core/model/adapters.c:attention   a point of a block
core/model/adapters.c:linear      a point of a block
core/config/lora_section.c:lora   the short form of that adapter
core/config/aliases.c:*           old keys, and the plugins that they mean now
core/plugin/host.c:head_gates     a host function
lib/run/sections/run_sections.c:cosine a schedule of the learning rate
lib/run/sections/run_sections.c:linear a schedule of the learning rate
core/model/model_config.c:relu   an activation of dense blocks
core/model/model_config.c:swiglu an activation of dense blocks
core/model/model_config.c:linear a scaling of rope
core/model/model_config.c:residual what dropped assignments add, a form of a skip
lib/generate/generation.c:top_p   a way to draw tokens
tools/cli/verbs/verb_generate.c:top_p the same
tools/lab/serve/fields.c:top_p      the same
lib/pretrained/record_read.c:top_p  the same
lib/pretrained/keys_rope.c:linear    a scaling of rope
lib/pretrained/gguf/gguf_config.c:linear a scaling of rope
lib/pretrained/adapters/lora.h:lora the adapter that files of other tools can hold
tools/cli/verbs/verb_export.c:linear the only router that files of other tools can hold
lib/run/modules.c:attention      a module of the model
core/graph/plan/fuse_token.c:attention    an op
core/ops/layers/attention.c:attention    an op
core/ops/linear.c:linear          an op
core/ops/gemm.h:linear         an op
core/ops/layers/swiglu.c:swiglu          an op
core/graph/plan/fuse.c:swiglu     an op
lib/run/checkpoint/checkpoint_manifest.c:hash the checksum of a plugin's file
lib/run/*:entropy                 a measurement in metrics.jsonl
tools/report/*:entropy             a measurement in metrics.jsonl
tools/lab/*:entropy                a measurement in metrics.jsonl
tools/report/*:attention           a part of a block
tools/cli/verbs/verb_prune.c:prune  a verb
tools/lab/prune/apply.c:prune      the same
tools/lab/prune/scores.c:random    a choice without a score
core/plugin/load/find.c:replay_changes the new name of an old one
END
)

names=$(sources plugins -- '*.c' | sed 's,.*/,,; s,\.c$,,' | sort -u | paste -sd '|' -)
report "there are plugins to look for" "$([ -n "$names" ] || echo "no file under plugins")"

hits=$(cd "$srcdir" && sources core lib tools -- '*.[ch]' '*.def' | xargs grep -nE "\"($names)\"" /dev/null)
report "no plugin is named in core, lib or tools" "$(printf '%s\n' "$hits" | while IFS=: read -r file line text; do
    [ -n "$file" ] || continue
    for name in $(printf '%s\n' "$text" | grep -oE "\"($names)\"" | tr -d '"'); do
        printf '%s\n' "$allowed" | while read -r rule _; do
            # The rule is a pattern.
            # shellcheck disable=SC2254
            case $file:$name in $rule) echo found ;; esac
        done | grep -q found || echo "$file:$line: \"$name\""
    done
done)"
done_testing
