#!/bin/sh
# record.sh: what a program computes, bit for bit, as text that can be stored and compared.
#
#     record.sh [-d DATA] [-p PLUGINS] [-t THREADS] [-s SEED] [-D DEVICE] [-o DIR] PROGRAM RUN|GROUP...
#     record.sh -l GROUP        lists the runs of a group
#
# PROGRAM is moefw. The groups are quick (small models on generated data), slow (models of full
# width on generated data), data (those that read files), all of these, and abi01 (with the plugins
# of tests/plugins/abi01). DATA is a folder with tinyshakespeare.txt, wikitext-2/test.txt,
# sst2/{train,dev}.tsv, sick/SICK_{train,trial}.txt and bert/vocab.txt. PLUGINS is a folder whose
# plugins go before those of the program: routers/NAME.so, experts/NAME.so and so on, and backends
# of devices; DEVICE is train.device of all runs. Each run is
# recorded on stdout, or with -o in DIR/RUN.txt.
#
# A record has a line `compiler NAME VERSION` of $CC (cc), then for each line of metrics.jsonl its
# step, split and loss, then hashes (sha256sum):
#     model            all tensors of model.safetensors: what lies behind the header, which is as long
#                      as the file's first 8 bytes say, so that metadata do not count
#     model names      names, types and shapes of these tensors, in the order of the file
#     state GROUP      tensors of state.safetensors whose names begin with GROUP and a slash, without
#                      real/wall_s, the time that the run took; a file without them has no such line
#     metrics          metrics.jsonl without the fields tokens_per_s and wall_s, without floor, which is
#                      computed from the data alone, and without what 0.3 added: which batches a validation
#                      took, and its numbers of the first ones; dropped_per_token has its name of before, and
#                      lines of compare lack name and lacks
# Some runs have lines of generate (the bytes of the text, in hexadecimal digits), eval and compare as
# well, without times.
#
# The instruction set (avx2), the gemms (own) and the number of threads (2) are fixed, so that
# the bits do not depend on the machine. They do depend on the compiler, and on the C library's
# mathematical functions.
set -u
LC_ALL=C
export LC_ALL

quick="default bf16 capacity reassign switch lamoe attention vanilla masked heads windows latent plugins routers"
slow="default-long bf16-long compare-long sentinel-quick"
data="shakespeare switch-quick switch-as-run-quick switch-plus-quick switch-plus-as-run-quick"
data="$data lamoe-quick lamoe-as-run-quick tagat-balanced-quick tagat-balanced-as-run-quick"
data="$data tagat-specialised-quick tagat-specialised-as-run-quick vanilla-quick vanilla-as-run-quick sick"
abi01="abi01-noisy abi01-bent"

die() {
    echo "record.sh: $*" >&2
    exit 2
}

# members NAME: the runs of a group, or the run of this name
members() {
    case $1 in
        quick) echo "$quick" ;;
        slow) echo "$slow" ;;
        data) echo "$data" ;;
        all) echo "$quick $slow $data" ;;
        abi01) echo "$abi01" ;;
        *)
            case " $quick $slow $data $abi01 " in
                *" $1 "*) echo "$1" ;;
                *) die "no run and no group is called '$1'" ;;
            esac
            ;;
    esac
}

folder='' plugins='' threads=2 seed='' device=cpu out=''
while getopts d:p:t:s:D:o:l: option; do
    case $option in
        d) folder=$(cd "$OPTARG" && pwd) || exit 2 ;;
        p) plugins=$(cd "$OPTARG" && pwd) || exit 2 ;;
        t) threads=$OPTARG ;;
        s) seed=$OPTARG ;;
        D) device=$OPTARG ;;
        o) mkdir -p "$OPTARG" && out=$(cd "$OPTARG" && pwd) || exit 2 ;;
        l)
            list=$(members "$OPTARG") || exit 2
            # shellcheck disable=SC2086
            printf '%s\n' $list
            exit 0
            ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || die "expected a program and the names of runs or groups"
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1") || exit 2
[ -x "$program" ] || die "'$1' is no program"
shift
runs=
for word; do
    list=$(members "$word") || exit 2
    runs="$runs $list"
done

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM HUP
cd "$scratch" || exit 1
[ -z "$folder" ] || ln -s "$folder" data
unset MOEFW_KERNELS MOEFW_PLUGIN_PATH
[ -z "$plugins" ] || export MOEFW_PLUGIN_PATH="$plugins"
MOEFW_ISA=avx2 MOEFW_GEMM=own OMP_WAIT_POLICY=passive
HOME=$scratch XDG_CONFIG_HOME=$scratch XDG_DATA_HOME=$scratch
export MOEFW_ISA MOEFW_GEMM OMP_WAIT_POLICY HOME XDG_CONFIG_HOME XDG_DATA_HOME

# ---- what is printed ----

compiler() {
    # With another C library than GNU's it is another compiler.
    printf '#include <stdlib.h>\n__clang_major__ __clang_minor__ __GNUC__ __GNUC_MINOR__ __GLIBC__\n' |
        ${CC:-cc} -E -P - 2>/dev/null | awk 'NF { line = $0 }
            END { split(line, m); name = m[5] ~ /^[0-9]/ ? "" : "other"
                if (m[1] ~ /^[0-9]/) print name "clang", m[1] "." m[2]; else print name "gcc", m[3] "." m[4] }'
}

# traced FILE: step, split and loss of each line of metrics.jsonl that has one
traced() {
    awk '
        function value(key, at) {
            at = index($0, "\"" key "\":")
            if (!at) return ""
            at = substr($0, at + length(key) + 3)
            match(at, /^("[^"]*"|[^,}]*)/)
            at = substr(at, 1, RLENGTH)
            gsub(/"/, "", at)
            return at
        }
        {
            loss = value("loss")
            if (loss == "") next
            if (loss != "null") loss = sprintf("%.9g", loss)
            print "step", value("step"), value("split"), loss
        }' "$1"
}

# timeless: JSON without what depends on the machine or on the data alone
timeless() {
    sed -E -e 's/"(tokens_per_s|wall_s|floor)":[^,}]*,//g' -e 's/,"(tokens_per_s|wall_s|floor)":[^,}]*//g' \
        -e 's/,"(batches|final|curve_[a-z0-9_]*)":[^,}]*//g' -e 's/"dropped_per_token":/"drop_rate":/; s/"name":"[^"]*",//g; s/"lacks":0,//'
}

hashed() {
    sha256sum | sed 's/ .*//'
}

# header FILE: of a safetensors file, one entry a line, as "NAME DTYPE SHAPE FIRST END" in the order of
# the data; without the metadata
header() {
    bytes=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    tail -c +9 "$1" | head -c "$bytes" | sed -e 's/^{//' -e 's/"__metadata__":{[^}]*},*//' |
        sed -E 's/"([^"]*)":\{"dtype":"([^"]*)","shape":\[([^]]*)\],"data_offsets":\[([0-9]*),([0-9]*)\]\},?/\1 \2 [\3] \4 \5\
/g' | grep '^[^ ]* [A-Z0-9]* \[' | sort -n -k 4,4 -k 5,5
}

# tensors FILE: hash of all data
tensors() {
    tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1" | hashed
}

# part FILE GROUP: the bytes of the tensors of a group, neighbours in one piece. Not those that
# are no result: the time, and the number of lines in metrics.jsonl.
part() {
    from=$((9 + $(od -An -tu8 -N8 "$1")))
    awk -v group="$2/" 'index($1, group) == 1 && $1 != "real/wall_s" && $1 != "int/log/lines" && $5 > $4 {
            if (!n || $4 != end) { if (n) print first, end; first = $4 }
            n++
            end = $5
        }
        END { if (n) print first, end }' "$scratch/header" |
        while read -r first end; do
            tail -c +$((from + first)) "$1" | head -c $((end - first))
        done
}

# report RUN: trace and hashes of a run's directory
report() {
    traced "$1/metrics.jsonl"
    files=$1/ckpt/$(cat "$1/ckpt/latest")
    echo "model $(tensors "$files/model.safetensors")"
    echo "model names $(header "$files/model.safetensors" | cut -d ' ' -f 1-3 | hashed)"
    header "$files/state.safetensors" >"$scratch/header"
    sed 's,[/ ].*,,' "$scratch/header" | sort -u | while read -r group; do
        echo "state $group $(part "$files/state.safetensors" "$group" | hashed)"
    done
    echo "metrics $(timeless <"$1/metrics.jsonl" | hashed)"
}

# ---- what is run ----

# train WORDS...: a run in the folder run
train() {
    rm -rf run
    "$program" train "$@" -q -t "$threads" --device "$device" --out run ${seed:+--set "train.seed=$seed"} >log 2>&1 || {
        echo "record.sh: moefw train $* failed:" >&2
        tail -n 5 log >&2
        return 1
    }
}

# trained WORDS...: the same, and its report
trained() {
    train "$@" && report run
}

# small WORDS...: a small model on a short generated text, for some steps
small() {
    trained "$@" --set data.path='builtin:topics?bytes=20000' --set data.tokenizer=byte \
        --set train.warmup=2 --set train.log_every=2 --set train.eval_every=6 \
        --set train.eval_batches=2 --set train.eval_context=0
}

thin="--set model.dim=32 --set model.layers=2 --set model.seq=32 --set train.batch=4 --set train.steps=12"

# sentences FILE LINES SEED: "WORDS TAB LABEL", the label told by one word
sentences() {
    awk -v lines="$2" -v seed="$3" 'function draw(n) { x = (x * 1103 + 12345) % 65521; return x % n }
        BEGIN {
            x = seed; split("the a film plot it is was so very and scene ends", w, " ")
            for (i = 0; i < lines; i++) {
                good = draw(2); n = 2 + draw(7); at = draw(n); s = ""
                for (j = 0; j < n; j++)
                    s = s (j ? " " : "") (j == at ? (good ? "fine" : "dull") : w[1 + draw(12)])
                print s "\t" (good ? "pos" : "neg")
            }
        }' >"$1"
}

# labelled WORDS...: a small encoder on such sentences
labelled() {
    sentences train.tsv 96 7
    sentences dev.tsv 24 99
    trained "$@" --set model.dim=16 --set model.seq=24 --set model.vocab=auto --set train.batch=16 \
        --set train.lr=0.01 --set train.epochs=2 --set train.log_every=2
}

# written WORDS...: what the run of before writes behind a prompt, and a measurement of it
written() {
    "$program" generate run "$@" -q -t "$threads" 2>log |
        od -An -v -tx1 | tr -d '\n ' | fold -w 64 | sed 's/^/text /'
    echo
}

measured() {
    "$program" eval run --json -q -t "$threads" "$@" 2>log | timeless | sed 's/^/eval /'
}

compared() {
    rm -rf compared
    "$program" compare "$@" ${seed:+--set "train.seed=$seed"} --json -q -t "$threads" --out compared 2>log | timeless |
        sed -E -e 's/"(p_flip|p_flip_holm|level|level_all_looks)":[^,}]*,//g' -e 's/"earlier_looks":[^]]*\],//' |
        sed -e 's/{"router":/\
&/g' | sed 's/^/compare /'
}

shakespeare="--data data/tinyshakespeare.txt --set data.split=0.99 --set train.log_every=10 --set train.eval_every=0"
wikitext="--data data/wikitext-2/test.txt --set data.split=0.98 --set train.log_every=5 --set train.eval_every=0"

# classes PRESET WORDS...: a published encoder on a part of SST-2
classes() {
    trained "$@" --data data/sst2/train.tsv --set data.val_path=data/sst2/dev.tsv \
        --set data.tokenizer=data/bert/vocab.txt --set data.limit=320 --set train.epochs=2 --set train.log_every=1
}

# The lists of options above are split into words.
# shellcheck disable=SC2086
record() {
    case $1 in
        # models of the preset's width, for the shapes of its gemms
        default)
            small default --set train.steps=8 || return 1
            written -p "the ship " -n 100 -s 1
            measured
            ;;
        bf16) small default --set train.dtype=bf16 --set train.steps=6 && written -p "the ship " -n 20 -s 1 ;;
        # the treatment of assignments over capacity
        capacity) small default $thin --set moe.capacity_factor=1 --set moe.overflow=drop --set moe.priority=gate ;;
        reassign)
            small default $thin --set moe.capacity_factor=1 --set moe.overflow=reassign --set moe.renormalize=yes \
                --set moe.adaptive_capacity=0.2 --set moe.top_k=1 --set router.plugin=tia_r --set train.recompute=light
            ;;
        switch) small switch-plus-as-run $thin ;;
        lamoe)
            small lamoe $thin --set model.heads=4 --set model.kv_heads=2 --set model.vocab=auto \
                --set expert.hidden=64 --set data.format=text --set data.val_path=
            ;;
        # sentences and classes
        attention) labelled tagat-balanced ;;
        vanilla) labelled vanilla ;;
        masked)
            small default $thin --set model.task=mlm --set model.causal=no --set model.norm=layernorm \
                --set model.position=learned --set expert.plugin=mlp
            ;;
        # gates of heads, pruned and brought back
        heads)
            small sentinel-quick --set model.dim=32 --set model.layers=2 --set model.seq=16 \
                --set train.batch=4 --set train.steps=36 --set controller.sentinel.every=2 \
                --set controller.sentinel.rate=20 --set controller.sentinel.warmup=2 \
                --set controller.sentinel.entropy_high=0.1 --set controller.sentinel.grace=100 \
                --set controller.sentinel.max_pruned=0.4 --set controller.plateau.patience=1 \
                --set controller.plateau.min_change=100 --set controller.plateau.used=0 \
                --set controller.plateau.ramp_steps=4 --set model.skip=unet --set model.skip_form=residual
            ;;
        # options of blocks that published models have; texts, because decoding has its own code
        windows)
            small default $thin --set model.window=9 --set model.window_layers=0 --set model.sinks=yes \
                --set model.kv_heads=2 --set model.head_dim=12 --set model.qk_norm=head \
                --set model.clip_qkv=3 --set model.rope_scaling=yarn --set model.rope_factor=4 \
                --set model.rope_original=16 --set model.rope_half=yes --set router.bias=yes \
                --set expert.hidden=32 --set expert.bias=yes --set expert.limit=7 \
                --set expert.alpha=1.702 --set expert.shift=1 || return 1
            written -p "the ship " -n 40 -s 1
            ;;
        latent)
            small default $thin --set model.latent=20 --set model.latent_q=12 --set model.head_dim=12 \
                --set model.rope_dims=4 --set model.value_dim=8 --set model.dense_layers=0 \
                --set moe.shared_experts=1 --set moe.shared_hidden=24 --set moe.shared_gate=yes \
                --set router.groups=4 --set router.topk_groups=2 --set expert.hidden=32 || return 1
            written -p "the ship " -n 40 -s 1
            ;;
        # every regularizer, and controllers that turn options
        plugins)
            set --
            for term in cv_importance cv_load entropy importance2_load l2_balance load_balance simbal z_loss; do
                set -- "$@" --set "regularizer.$term.plugin=$term" --set "regularizer.$term.weight=0.01"
            done
            small default $thin "$@" --set router.plugin=sigmoid_bias --set moe.capacity_factor=1.25 \
                --set controller.bias.plugin=expert_bias --set controller.capacity.plugin=capacity \
                --set controller.lr.plugin=schedule --set controller.lr.target=train.lr \
                --set controller.lr.from=0.001 --set controller.lr.to=0.003 --set controller.lr.end=10
            ;;
        # routers, some steps each
        routers)
            list=attention,cosine,hadamard,hash,hybrid,linear,mlp,mlp_hadamard,noisy_topk,oracle,random
            list=$list,relu,self_supervised,sigmoid_bias,sinkhorn,tia_r
            compared default $thin --routers $list --seeds 1 --steps 4 --set data.path='builtin:topics?bytes=8000' \
                --set train.eval_batches=2 --set train.eval_context=0 --set train.log_every=1
            for run in compared/*/seed-1; do
                echo "router $(basename "$(dirname "$run")")"
                report "$run"
            done
            ;;
        # plugins that were built against the headers of 0.1
        abi01-noisy)
            small default $thin --set router.plugin=noisy --set expert.plugin=gated \
                --set regularizer.even.plugin=even --set regularizer.even.weight=0.05 \
                --set controller.steer.plugin=steer --set train.steps=20 --set train.log_every=1 \
                --set train.warmup=1
            ;;
        abi01-bent)
            small default $thin --set router.plugin=bent --set expert.plugin=gated \
                --set expert.activation=silu --set regularizer.even.plugin=even \
                --set controller.steer.plugin=steer --set controller.steer.option=router.heat \
                --set train.steps=20 --set train.log_every=1 --set train.warmup=1 --set moe.capacity_factor=1
            ;;
        default-long)
            trained default --steps 120 --set data.path='builtin:topics?bytes=300000' || return 1
            written -p "the ship " -n 100 -s 1
            ;;
        bf16-long) trained default --steps 60 --set train.dtype=bf16 --set data.path='builtin:topics?bytes=200000' ;;
        compare-long)
            compared default --routers linear,cosine,hash --seeds 2 --steps 8 --set train.eval_batches=2 \
                --set train.eval_context=0 --set data.path='builtin:topics?bytes=30000'
            for run in compared/*/seed-?; do
                echo "run ${run#compared/}"
                report "$run"
            done
            ;;
        sentinel-quick) trained sentinel-quick --steps 300 ;;
        shakespeare)
            trained shakespeare --steps 200 $shakespeare || return 1
            written -p "ROMEO:" -n 100 -s 1
            measured --batches 20
            ;;
        switch*-quick) trained "$1" --steps 150 $shakespeare ;;
        lamoe*-quick) trained "$1" --steps 40 $wikitext ;;
        tagat*-quick | vanilla*-quick) classes "$1" ;;
        sick)
            trained sick --data data/sick/SICK_train.txt --set data.val_path=data/sick/SICK_trial.txt \
                --set data.tokenizer=data/bert/vocab.txt --set data.limit=320 --set train.epochs=2 --set train.log_every=1
            ;;
    esac
}

status=0
for name in $runs; do
    case " $data " in
        *" $name "*) [ -n "$folder" ] || die "the run '$name' reads files: -d DATA" ;;
    esac
    file=$scratch/record
    { compiler | sed 's/^/compiler /' && record "$name"; } >"$file" || status=1
    if [ -n "$out" ]; then mv "$file" "$out/$name.txt"; else cat "$file"; fi
done
exit $status
