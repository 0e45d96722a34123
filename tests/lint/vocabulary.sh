#!/bin/sh
# vocabulary.sh: the words of CONTRIBUTING.md, "Words". Those of its right-hand column are looked for in
# code, comments, settings and pages, where they mean only one thing; an underscore ends a word too.
. "$(dirname "$0")/lib.sh"

# WORD: what to say instead. WORD is a pattern.
words='
products?|multiplications?: gemm
strips?: tile or panel
narrow(s|ed|ing|er)?|widen(s|ed|ing)?: to_bf16, to_f32, convert
in halves|mf_half|halfs: bf16
lend(s|er|ers|ing)?|lent: gradient buffer reuse
(ask|asks|asked|asking) for ahead: prefetch
facts?: dimensions
guess|guesses|guessed: prediction, confusion matrix
ladders?: length buckets
rigs?: harness
standins?|stand-ins?: stub
strangers?: third-party
knobs?: live option
left out: skipped, or without
made again|makes again: recomputed
such that no: say what holds
'

# FILES WORD: REASON. The first two are patterns.
allowed='
. (inner|dot|outer|scalar|hadamard|element-?wise|matrix)[ -]products?: the word of mathematics
^plugins/routers/mlp_hadamard.c|^tests/unit/model/check_router_formulas.c|^core/local.mk|^man/moefw-routers.7|^tests/lint/names.sh|^bench/ product: a value of the option mode
^bench/ dot_product: a function of PyTorch
^plugins/|^man/|^README.md|^NEWS|^share/|^tests/ product[ _]keys: the name of a published layer
\.py$ \.strip\(: a function of Python
^lib/data/jinja/methods.c "strip": a method of Python
^lib/data/tokenizer/pretrained/|^lib/pretrained/published/tokenizer.c|^man/moefw-pretrained.7|^tests/fuzz/fuzz_tokenizer_json.c "?[lr]?strip(_accents|_left|_right)?[\\", :]: a name in tokenizer.json
'

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
# Not looked at: pictures, recorded data, a release's headers, this list, and the table in CONTRIBUTING.md.
all_sources '*' | grep -vE '\.(svg|golden|safetensors)$|^tests/(plugins/abi01|bits|fuzz/corpus|golden)/' |
    grep -vxF tests/lint/vocabulary.sh >"$scratch/files"
printf '%s\n' "$words" | sed '/^$/d' >"$scratch/words"
printf '%s\n' "$allowed" | sed '/^$/d' >"$scratch/allowed"
report "there are files to look at" "$([ -s "$scratch/files" ] || echo "no file")"
# shellcheck disable=SC2016
report "no word of the glossary's right-hand column" "$(cd "$srcdir" && xargs awk -v words="$scratch/words" -v allowed="$scratch/allowed" '
    FILENAME == words {
        at = index($0, ": ")
        n++; word[n] = "(" substr($0, 1, at - 1) ")"; say[n] = substr($0, at + 2)
        if (n > 1) any = any "|"
        any = any word[n]
        next
    }
    FILENAME == allowed {
        at = index($0, ": "); rule = substr($0, 1, at - 1)
        m++; where[m] = substr(rule, 1, index(rule, " ") - 1); free[m] = substr(rule, index(rule, " ") + 1)
        next
    }
    {
        line = tolower($0)
        if (line !~ any || (FILENAME == "CONTRIBUTING.md" && /^\|/)) next
        for (i = 1; i <= m; i++) if (FILENAME ~ where[i]) gsub(free[i], "", line)
        for (i = 1; i <= n; i++)
            if (match(line, "(^|[^a-z])" word[i] "([^a-z]|$)"))
                print FILENAME ":" FNR ": " substr(line, RSTART, RLENGTH) ": expected " say[i]
    }' "$scratch/words" "$scratch/allowed" <"$scratch/files")"
done_testing
