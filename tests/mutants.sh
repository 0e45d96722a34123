#!/bin/sh
# mutants.sh [-n N] [-s SEED] [-u] [-l] [FILE[:LINE[:COLUMN]]...]: draws N (30) changes of one token in files of
# core/ and lib/ (default: all; with a line and column, those alone), and says which test finds each:
#
#     core/train/trainer_step.c:223: '<' to '<=': found by unit/train/check_trainer
#     lib/generate/sampler.c:154: '==' to '!=': OUTLIVES
#
# Run it in a build folder that has `make` and `make check TESTS=`; nothing is written there or in the
# sources. Only the file with the change is compiled, and programs are linked with it: first the check
# programs that call most of its functions, then tests/bits quick, then tests of its folder and those of
# $MUTANTS_BATS (FILE=FILTER, by spaces; '_' in the filter stands for a space). A check program that takes
# longer than $MUTANTS_SECONDS (200) has found the change; bits may take 3 times as long, a file of bats 10
# times. A change that does not compile, or whose object code is the same, is not counted, and another one
# is drawn. -u: check programs alone; -l: lists what would be drawn. Its status is 1 if a change outlives,
# which is a hole in the tests or makes an equal program. Not under nohup, and not behind a '&' of sh: tests
# of signals wait where SIGHUP or SIGINT is ignored.
set -u
LC_ALL=C
export LC_ALL
n=30 seed=1 units='' list=''
while getopts n:s:ul option; do
    case $option in
    n) n=$OPTARG ;;
    s) seed=$OPTARG ;;
    u) units=1 ;;
    l) list=1 ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
build=$PWD
src=$(cd "$(dirname "$0")/.." && pwd) || exit 2
[ -x "$build/moefw" ] || {
    echo "mutants.sh: expected to run in a build folder with the program moefw" >&2
    exit 2
}
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM HUP
seconds=${MUTANTS_SECONDS:-200}
most=${MUTANTS_UNITS:-12}
files=${MUTANTS_BATS:-train/train.bats=. infer.bats=. train/long.bats=. faults/faults.bats=train_and_resume ranks.bats=ranks}

# ---- what is drawn ----

cd "$src" || exit 2
if [ $# -eq 0 ]; then
    find core lib -name '*.c' | sort
else
    printf '%s\n' "$@"
fi >"$scratch/files"
while IFS=: read -r file line column; do
    awk -f tests/mutants.awk "$file" | awk -F '\t' -v line="$line" -v column="$column" \
        '(line == "" || $2 == line) && (column == "" || $3 == column)'
done <"$scratch/files" >"$scratch/all"
# In an order that only the seed and the list determine (Park and Miller's generator).
awk -v seed="$seed" 'BEGIN { s = seed * 7919 % 2147483646 + 1; for (i = 0; i < 9; i++) s = s * 16807 % 2147483647 }
    { s = s * 16807 % 2147483647; printf "%010d\t%s\n", s, $0 }' "$scratch/all" | sort |
    cut -f 2- >"$scratch/drawn"
if [ -n "$list" ]; then
    head -n "$n" "$scratch/drawn"
    exit
fi

# ---- how to compile and link ----

# shellcheck disable=SC2016
make -C "$build" -s --no-print-directory --eval 'mutants-show:;$(info COMPILE $(COMPILE))$(info CC $(CC))$(info LINK $(CCLD) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS))$(info PROGRAM $(moefw_LDFLAGS) $(moefw_OBJECTS) $(moefw_LDADD) $(LIBS))$(foreach p,$(check_PROGRAMS),$(info PARTS $p $($(subst -,_,$(subst /,_,$p))_OBJECTS) $($(subst -,_,$(subst /,_,$p))_LDADD) $(LIBS)))@:' \
    mutants-show >"$scratch/make" || exit 2
of() { sed -n "s,^$1 ,,p" "$scratch/make"; }
COMPILE=$(of COMPILE) LINK=$(of LINK) CC=$(of CC)
export CC # tests compile plugins
cd "$build" || exit 2
# A folder like that of the build, with a program of its own.
mkdir "$scratch/b" "$scratch/tree"
for f in "$build"/* "$build"/.[!.]*; do
    case ${f##*/} in moefw) ;; *) ln -s "$f" "$scratch/b/" ;; esac
done
export MOEFW="$scratch/b/moefw" srcdir="$src" builddir="$build" XDG_STATE_HOME=/dev/null CK_FORK=yes
export CK_DEFAULT_TIMEOUT="$seconds"

# object FILE OUT: compiles $scratch/tree/one.c, a version of FILE. The name is that of each version.
object() {
    # shellcheck disable=SC2086
    sh -c "$COMPILE -I$src/$(dirname "$1") -w -g0 -c -o $2 $scratch/tree/one.c" 2>"$scratch/errors"
}

# The check programs that call functions of one.o, most calls first, then those of its folder.
near() { # FILE
    nm -g --defined-only "$scratch/one.o" | awk '$2 == "T" { print $3 }' >"$scratch/defined"
    folder=$(dirname "$1" | sed 's,^[a-z]*/,,; s,/.*,,')
    for o in tests/unit/*/check_*.o; do
        [ -x "${o%.o}" ] || continue
        calls=$(nm -u "$o" | awk 'NR == FNR { has[$1]; next } $2 in has { n++ } END { print n + 0 }' "$scratch/defined" -)
        case $o in
        *without_memory.o | *faults.o) [ "$calls" = 0 ] || calls=0.4 ;; # they are slow
        */check_"$(basename "$1" .c)".o) calls=$((calls + 100)) ;;
        tests/unit/"$folder"/*) [ "$calls" -gt 0 ] || calls=0.5 ;;
        esac
        [ "$calls" = 0 ] || echo "$calls ${o%.o}"
    done | sort -rn | awk '{ print $2 }' | head -n "$most"
}

# passes TIMES COMMAND...: whether it ends in so many times the limit, with status 0 and without "not ok". Else $why says what failed.
passes() {
    limit=$((seconds * $1))
    shift
    timeout -k 5 "$limit" "$@" >"$scratch/log" 2>&1 </dev/null
    status=$?
    why=$(grep -m 1 '^not ok\|^differs' "$scratch/log" |
        sed 's/^not ok [0-9]* *-* *//; s,.*\.c:\([A-Za-z_0-9]*:[A-Za-z_0-9]*\).*,\1,; s/ # in .*//')
    [ -n "$why" ] || [ "$status" -ne 0 ] || return 0
    [ -n "$why" ] || why="status $status"
    return 1
}

# check_with OBJECT PROGRAM: links a check program with the object and runs it
check_with() {
    eval "$LINK -o $scratch/check $scratch/$1 $(of "PARTS $2")" 2>"$scratch/errors" || {
        echo "$2: $(head -n 1 "$scratch/errors")" >&2
        return 0
    }
    cd "$scratch/b" || exit 2
    passes 1 "$scratch/check"
    set -- $?
    cd "$build" || exit 2
    return "$1"
}

# Files of bats for the folder of a file, before those for all.
bats_of() {
    case $1 in
    core/config/* | lib/run/sections/*) echo config.bats=. manual.bats=. runs.bats=. ;;
    core/model/adapt*) echo train/sentinel.bats=. ;;
    core/model/*config*) echo config.bats=. manual.bats=. ;;
    core/model/*) echo train/tallies.bats=. train/layers.bats=. train/latent.bats=. ;;
    core/plugin/*) echo plugins/program.bats=. plugins/refuse.bats=. plugins/trust.bats=. ;;
    core/graph/device/* | core/graph/plugin_*) echo device.bats=. plan_device.bats=. ;;
    core/comm/* | core/train/parallel/*) echo ranks.bats=. shared_experts.bats=. ;;
    lib/data/*) echo train/data.bats=. train/tasks.bats=. ;;
    lib/generate/*) echo generate.bats=. ;;
    lib/pretrained/*) echo pretrained/folders.bats=. pretrained/verify.bats=. pretrained/finetune.bats=. pretrained/stored.bats=. ;;
    lib/run/*) echo train/logging.bats=. train/mlflow.bats=. runs.bats=. faults/trust.bats=. pretrained/stored.bats=. ;;
    esac
}

# judge FILE: says in $found what finds the change; nothing: it outlives. A test that fails without the
# change, too, finds nothing.
judge() {
    found=
    near "$1" >"$scratch/near"
    ln -sf "$build/moefw" "$MOEFW" # that of the build, until it is linked with the change
    while read -r program <&4; do
        check_with one.o "$program" && continue
        found="${program#tests/}: $why"
        check_with before.o "$program" && return
        echo "$program fails without the change: $why" >&2
        found=
    done 4<"$scratch/near"
    [ -z "$units" ] || return
    rm -f "$MOEFW"
    eval "$LINK -o $MOEFW $scratch/one.o $(of PROGRAM)" 2>"$scratch/errors" || {
        found="the linker"
        return
    }
    passes 3 sh "$src/tests/bits/check.sh" "$MOEFW" quick || {
        found="bits: $why"
        return
    }
    for b in $(bats_of "$1") $files; do
        bats=$src/tests/cli/${b%%=*}
        [ -f "$bats" ] || bats=$src/tests/${b%%=*}
        [ -f "$bats" ] || {
            echo "mutants.sh: no file $bats" >&2
            exit 2
        }
        set -- "${BATS:-bats}" --tap -f "$(echo "${b#*=}" | tr _ ' ')" "$bats"
        builddir=$scratch/b passes 10 "$@" && continue
        found="${b%%=*}: $why"
        MOEFW=$build/moefw passes 10 "$@" && return
        echo "${b%%=*} fails without the change: $why" >&2
        found=
    done
}

drawn=0 equal=0 wrong=0 outlive=0
while IFS="$(printf '\t')" read -r file line at length old new <&3; do
    [ "$drawn" -lt "$n" ] || break
    cp "$src/$file" "$scratch/tree/one.c"
    object "$file" "$scratch/before.o" || {
        echo "$file: does not compile: $(head -n 1 "$scratch/errors")" >&2
        continue
    }
    awk -v line="$line" -v at="$at" -v length_="$length" -v new="$new" \
        'NR == line { $0 = substr($0, 1, at - 1) new substr($0, at + length_) } { print }' \
        "$src/$file" >"$scratch/tree/one.c"
    if ! object "$file" "$scratch/one.o"; then
        wrong=$((wrong + 1))
        continue
    elif cmp -s "$scratch/before.o" "$scratch/one.o"; then
        equal=$((equal + 1))
        continue
    fi
    drawn=$((drawn + 1))
    judge "$file"
    [ -n "$found" ] || outlive=$((outlive + 1))
    echo "$file:$line:$at: '$old' to '$new': ${found:+found by }${found:-OUTLIVES}"
done 3<"$scratch/drawn"
echo "drawn $drawn (not counted: $wrong that do not compile, $equal that are equal), outlive $outlive"
[ "$outlive" -eq 0 ]
