# Comparisons: their table and verdicts, the files they leave, and that they continue after a kill.

bats_require_minimum_version 1.5.0
setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
    export OMP_WAIT_POLICY=passive
    mkdir -p "$BATS_FILE_TMPDIR/work" "$XDG_DATA_HOME/moefw/plugins/routers"
    ${CC:-cc} -std=gnu11 -O1 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden \
        -shared -o "$XDG_DATA_HOME/moefw/plugins/routers/handicap.so" \
        "$srcdir/tests/plugins/third_party/handicap.c" -lm
}
setup() { cd "$BATS_FILE_TMPDIR/work" || return 1; }

# small ARGUMENT...: a comparison of tiny models
small() {
    "$MOEFW" compare default -t 1 --set 'data.path=builtin:topics?bytes=40000' \
        --set model.layers=1 --set model.dim=32 --set train.batch=2 --set train.save_every=10 "$@"
}

# timeless: JSON without times and without the folder's name
timeless() {
    sed -e 's/"tokens_per_s":[^,}]*,*//g' -e 's/"wall_s":[^,}]*,*//g' -e 's/"out":"[^"]*",//'
}

@test "two routers, two seeds: JSON, run directories, no run repeated" {
    run --separate-stderr small --routers linear,hash --seeds 2 --steps 6 --out two --json
    [ "$status" -eq 0 ]
    [ "$(echo "$output" | wc -l)" -eq 1 ]
    for key in '"metric":"task_loss"' '"baseline":"linear"' '"seeds":2' '"steps":6' \
        '"rows":[{"router":"linear"' '{"router":"hash"' '"skipped":[]' '"complete":true'; do
        [[ "$output" == *"$key"* ]]
    done
    for key in params mean sd ci95 diff diff_ci95 p p_holm verdict load_cv drop_rate nmi tokens_per_s; do
        [[ "$output" == *"\"$key\":"* ]]
    done
    [ "$output" = "$(cat two/comparison.json)" ]
    for run in linear/seed-1 linear/seed-2 hash/seed-1 hash/seed-2; do
        [ -f "two/$run/metrics.jsonl" ]
        [ -d "two/$run/ckpt" ]
    done
    stat -c '%Y %n' two/*/seed-*/metrics.jsonl >before
    first=$output
    run --separate-stderr "$MOEFW" compare two -t 1 --json
    [ "$status" -eq 0 ]
    [ "$output" = "$first" ]
    stat -c '%Y %n' two/*/seed-*/metrics.jsonl | diff before -
}

@test "on a terminal of 80 columns the tables of compare and bench are cut by columns" {
    script --version >/dev/null 2>&1 || skip "no script(1)"
    MOEFW_ON="stty cols 80; '$MOEFW'"
    TERM=xterm script -qec "$MOEFW_ON compare two -q" /dev/null | tr -d '\r' >cut
    sed -n '/^rank/,/^$/p' cut >tables
    [ "$(grep -c '^rank router' tables)" -eq 3 ]
    [ "$(grep -cE '^ +[12] (linear|hash) ' tables)" -eq 6 ]
    awk 'length > 80 { exit 1 }' tables
    grep -q 'difference$' tables
    grep -q 'flip .* seeds$' tables
    grep -q 'tokens/s *params$' tables
    # a file is as wide as most terminals; a wider one gets one line for each router
    "$MOEFW" compare two -q >file
    [ "$(grep -c '^rank router' file)" -eq 3 ]
    awk 'length > 80 { exit 1 }' file
    COLUMNS=200 "$MOEFW" compare two -q >wide
    [ "$(grep -c '^rank router.*difference.*flip.*params$' wide)" -eq 1 ]
    for columns in 133 80; do
        TERM=xterm script -qec "stty cols $columns; '$MOEFW' bench routers --routers linear,hash --dim 16 --batch 1 --seq 8 --seeds 1 \
            --repetitions 1 -t 1 -q" /dev/null | tr -d '\r' >bench
        awk -v most="$columns" 'length > most { exit 1 }' bench
    done
    [ "$(grep -c '^router ' bench)" -ge 4 ]
    [ "$(grep -c '^hash ' bench)" -eq "$(grep -c '^router ' bench)" ]
    grep -q 'z_loss$' bench
}

@test "runs whose tokens stand for different numbers of bytes are compared in bits per byte" {
    cp -r two bits
    # to one token of hash belong twice as many bytes as to one of linear
    for seed in 1 2; do
        awk '{ if (match($0, /"bits_per_byte":[0-9.]+/)) { split(substr($0, RSTART, RLENGTH), part, ":")
            $0 = substr($0, 1, RSTART - 1) "\"bits_per_byte\":" part[2] / 2 substr($0, RSTART + RLENGTH) } print }' \
            two/hash/seed-$seed/metrics.jsonl >bits/hash/seed-$seed/metrics.jsonl
    done
    run --separate-stderr "$MOEFW" compare bits -t 1 --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"metric":"bits_per_byte"'*'"higher_is_better":false'* ]]
    [[ "$output" == *'{"router":"hash",'*'"rank":1,'* ]]
    run "$MOEFW" compare bits -t 1
    [[ "$output" == *"loss in bits/byte of the validation split, lower is better"* ]]
    grep -q '>validation loss, bits/byte<' bits/report.html
    ! grep -q 'nats/token' bits/report.html || false
}

@test "a run whose last checkpoint is missing is not done: it alone goes on" {
    small --routers linear,hash --seeds 1 --steps 6 --out lost >/dev/null
    timeless <lost/comparison.json >table
    stat -c %Y lost/linear/seed-1/metrics.jsonl >linear
    rm -r lost/hash/seed-1/ckpt/step-6
    sleep 1
    run --separate-stderr "$MOEFW" compare lost -t 1 --json
    [ "$status" -eq 0 ]
    [ -d lost/hash/seed-1/ckpt/step-6 ]
    [ "$(stat -c %Y lost/linear/seed-1/metrics.jsonl)" = "$(cat linear)" ]
    timeless <lost/comparison.json | diff table -
    # who removes all checkpoints to save room keeps the results
    rm -r lost/hash/seed-1/ckpt
    "$MOEFW" compare lost -t 1 --json >/dev/null
    [ ! -e lost/hash/seed-1/ckpt ]
}

@test "more seeds are added to existing ones" {
    run --separate-stderr "$MOEFW" compare two -t 1 --seeds 3 --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"seeds":3'* ]]
    diff before <(stat -c '%Y %n' two/*/seed-[12]/metrics.jsonl)
    [[ "$stderr" == *"6 of 6: hash seed 3"* ]]
    [[ "$stderr" != *"seed 2"* ]]
}

@test "a router against itself: the same start, no difference shown" {
    run --separate-stderr small --routers linear,linear:temperature=1 --seeds 2 --steps 6 --out same \
        --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"router":"linear:temperature=1","baseline":false'*'"diff":0,"diff_ci95":[0,0]'* ]]
    [[ "$output" != *'"better"'* && "$output" != *'"worse"'* ]]
    cmp "same/linear/seed-1/ckpt/step-6/model.safetensors" \
        "same/linear,temperature=1/seed-1/ckpt/step-6/model.safetensors"
}

@test "runs of one seed start with the same weights outside the router" {
    run small --routers linear,hash --seeds 1 --steps 1 --set train.lr=0 --out start -q
    [ "$status" -eq 0 ]
    run "$MOEFW" generate start/linear/seed-1 -p a -n 1 -t 1 --temp 0
    [ "$status" -eq 0 ]
    # Only routing changes the first training loss, so these differ by a few hundredths at most.
    a=$(sed -n '1s/.*"task_loss":\([0-9.]*\).*/\1/p' start/linear/seed-1/metrics.jsonl)
    b=$(sed -n '1s/.*"task_loss":\([0-9.]*\).*/\1/p' start/hash/seed-1/metrics.jsonl)
    awk -v a="$a" -v b="$b" 'BEGIN { d = a - b; exit !(a > 5 && d < .05 && d > -.05) }'
}

@test "a router that was asked for and is skipped is an error of the comparison" {
    run --separate-stderr small --routers linear,expert_choice --seeds 1 --steps 2 --out skip --json
    [ "$status" -eq 2 ]
    [[ "$output" == *'"lacks":1,'*'"skipped":[{"router":"expert_choice","reason":"'*"causal decoder"* ]]
    [[ "$output" != *'{"router":"expert_choice","baseline"'* ]]
    [[ "$stderr" == *"1 of 2 routers has no result, so the comparison lacks it: expert_choice: "*"causal decoder"* ]]
    run --separate-stderr "$MOEFW" compare skip -t 1 # as planned
    [ "$status" -eq 2 ]
    [[ "$output" == "INCOMPLETE: 1 of 2 routers without a result: expert_choice"* ]] || { echo "$output"; return 1; }
    grep -q 'INCOMPLETE, 1 router without a result (expert_choice): 1 router,' skip/report.html
}

@test "a baseline whose plugin is refused ends the comparison: no other router takes its place" {
    head -c 4000 "$builddir/plugins/routers/hash.so" >torn.so
    run --separate-stderr small --routers ./torn.so,hash --seeds 1 --steps 2 --out torn
    [ "$status" -eq 4 ]
    [[ "$stderr" == *"the baseline "*torn.so*" (--baseline names another)"* ]]
    [ ! -e torn ]
    run --separate-stderr small --routers hash,./torn.so --seeds 1 --steps 2 --out torn
    [ "$status" -eq 4 ]
    [[ "$output" == *"skipped: "*torn.so* && "$stderr" == *"the comparison lacks it: ./torn.so: "* ]]
}

@test "a file that cannot be looked at once changes neither the routers nor the baseline" {
    if ldd "$builddir/libmoefw.so.0" | grep -qE 'lib[atl]san'; then skip "not under a sanitizer"; fi
    # The NTH look at a file once.ini fails.
    ${CC:-cc} -std=gnu11 -O1 -fPIC -shared -o once.so -x c - <<'C'
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static int fails(const char *path)
{
    static int looks;
    const size_t n = strlen(path);
    if (n < 8 || strcmp(path + n - 8, "once.ini") != 0 || ++looks != atoi(getenv("NTH"))) return 0;
    errno = EIO;
    return -1;
}
int stat(const char *restrict path, struct stat *restrict st)
{
    int (*next)(const char *, struct stat *) = (int (*)(const char *, struct stat *))dlsym(RTLD_NEXT, "stat");
    return fails(path) ? -1 : next(path, st);
}
int fstat(int fd, struct stat *st)
{
    int (*next)(int, struct stat *) = (int (*)(int, struct stat *))dlsym(RTLD_NEXT, "fstat");
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && fails(path) ? -1 : next(fd, st);
}
C
    printf '[data]\npath=builtin:topics?bytes=40000\n[model]\nlayers=1\ndim=32\n[train]\nbatch=2\n' >once.ini
    failed=0 fine=0 # a look that only words of advice depend on changes nothing
    for nth in $(seq 40); do
        rm -rf looked
        run --separate-stderr env LD_PRELOAD="$PWD/once.so" NTH="$nth" "$MOEFW" compare once.ini -t 1 -q \
            --routers linear,hash --seeds 1 --steps 2 --out looked
        echo "$nth: $status $stderr"
        [[ "$output$stderr" != *"skipped"* ]]
        [ ! -e looked/plan.json ] || grep -q '"baseline":"linear"' looked/plan.json
        if [ "$status" -ne 0 ]; then
            failed=$((failed + 1)) fine=0
        elif [ $((fine += 1)) -eq 3 ]; then
            break
        fi
    done
    [ "$failed" -ge 2 ]
}

@test "wrong names and options, another configuration: exit 2, nothing changed" {
    for bad in haxh linear:temprature=2 linear,linear linear: ""; do
        run --separate-stderr small --routers "$bad" --steps 2 --out bad
        [ "$status" -eq 2 ]
        [ ! -e bad ]
    done
    cp -r two copy
    run --separate-stderr small --routers linear,hash --steps 7 --out copy
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"there 'steps = 6', now 'steps = 7'"* ]]
    mkdir other && touch other/file
    run --separate-stderr small --routers linear --steps 2 --out other
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"holds files already (file)"* ]]
    run --separate-stderr small --set model.moe_every=0 --routers linear --out dense
    [ "$status" -eq 2 ]
    [ ! -e dense ]
}

@test "killed in the middle and called again: the same results" {
    small --routers linear,hash --seeds 2 --steps 60 --out whole --json -q >whole.json
    "$MOEFW" compare default -t 1 --set 'data.path=builtin:topics?bytes=40000' \
        --set model.layers=1 --set model.dim=32 --set train.batch=2 --set train.save_every=10 \
        --routers linear,hash --seeds 2 --steps 60 --out killed -q 3>&- &
    for ((i = 0; i < 6000; i++)); do
        [ -e killed/hash/seed-1/ckpt/latest ] && break
        sleep 0.05
    done
    kill -KILL $!
    wait $! || true
    [ ! -e killed/hash/seed-2/ckpt ]
    run --separate-stderr "$MOEFW" compare killed -t 1 --json
    [ "$status" -eq 0 ]
    [[ "$stderr" != *"linear seed 1"* ]]
    diff <(echo "$output" | timeless) <(timeless <whole.json)
}

@test "without --out results get a folder with the next number; if all runs diverge, the status is 5" {
    mkdir -p runs/default-compare-1
    run --separate-stderr small --routers linear --seeds 1 --steps 12 -q --set train.lr=1000 --set train.clip=0 \
        --set train.warmup=0 --set train.schedule=constant --set train.eval_batches=1 --set train.final_batches=1
    [ "$status" -eq 5 ] || { echo "$status $stderr"; false; }
    [[ "$stderr" == *"moefw: every run diverged; a smaller train.lr may help" ]]
    [ "${lines[-1]}" = runs/default-compare-2 ]
    [ -z "$(ls runs/default-compare-1)" ]
}

@test "stopped by a signal: 143, and it continues" {
    "$MOEFW" compare default -t 1 --set 'data.path=builtin:topics?bytes=40000' \
        --set model.layers=1 --set model.dim=32 --set train.batch=2 \
        --routers linear --seeds 1 --steps 60 --set train.save_every=10 --out stopped 2>stopped.err 3>&- &
    for ((i = 0; i < 6000; i++)); do
        [ -e stopped/linear/seed-1/ckpt/latest ] && break
        sleep 0.05
    done
    kill -TERM $!
    status=0
    wait $! || status=$?
    [ "$status" -eq 143 ] || [ "$status" -eq 0 ] # 0: it ended before the signal
    run "$MOEFW" compare stopped -t 1 -q
    [ "$status" -eq 0 ]
    [ "$(echo "$output" | tail -1)" = stopped ]
}

@test "two processes share one comparison" {
    small --routers linear,hash --seeds 2 --steps 30 --out shared -q --json >one.json 3>&- &
    run --separate-stderr small --routers linear,hash --seeds 2 --steps 30 --out shared -q --json
    wait $!
    [ "$status" -eq 0 ]
    diff <(echo "$output" | timeless) <(timeless <one.json)
    [ "$(cat shared/*/seed-*/metrics.jsonl | grep -c '"split":"val"')" -eq 4 ]
}

@test "a comparison that another process is starting is joined, other folders are not" {
    mkdir begun foreign
    : >begun/plan.json.123-0.tmp # as a process leaves it that was killed between opening and renaming
    : >foreign/plan.json.txt
    run small --routers linear --seeds 1 --steps 1 --out begun -q
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    [ -e begun/plan.json ]
    run small --routers linear --seeds 1 --steps 1 --out foreign -q
    [ "$status" -eq 2 ]
    [[ "$output" == *"foreign: the directory holds files already (plan.json.txt)"* ]]
}

@test "equal parameters: the experts' width compensates for the router" {
    run --separate-stderr small --routers linear,mlp --seeds 1 --steps 2 --equal params --out params --json
    [ "$status" -eq 0 ]
    active=$(echo "$output" | grep -o '"params_active":[0-9]*' | cut -d: -f2)
    # one step of expert.hidden is 2 experts x 3 x 32 parameters
    echo "$active" | awk 'NR == 1 { a = $1 } NR == 2 { d = a - $1; exit !(d <= 96 && d >= -96) }'
    grep -qx 'hidden = 256' params/linear/config.ini
}

@test "equal time: steps by speed, decided once" {
    run small --routers linear,hash --seeds 1 --steps 20 --equal time --out time -q
    [ "$status" -eq 0 ]
    grep -qx 'steps = 20' time/linear/config.ini
    steps=$(sed -n 's/^steps = //p' time/hash/config.ini)
    [ "$steps" -ge 1 ]
    run --separate-stderr "$MOEFW" compare time -t 1 --json
    [ "$status" -eq 0 ]
    [[ "$output" == *"\"router\":\"hash\""*"\"steps\":$steps,"* ]]
    # the time of a baseline that diverges is unknown
    run --separate-stderr small --routers linear --seeds 1 --steps 12 --equal time --set train.lr=1000 \
        --set train.clip=0 --out wild
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"moefw: the baseline's pilot failed: step "* ]] || { echo "$stderr"; return 1; }
    [ ! -e wild/linear/seed-1 ]
    # a router that diverges is skipped, which is the status, and the others are compared
    sed 's/"handicap"/"wild"/; s/out->logits = .*/out->logits = mf_scale(g, logits, INFINITY);/' \
        "$srcdir/tests/plugins/third_party/handicap.c" >wild.c
    ${CC:-cc} -std=gnu11 -O1 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden -shared \
        -include math.h -o "$XDG_DATA_HOME/moefw/plugins/routers/wild.so" wild.c -lm
    run --separate-stderr small --routers hash,wild --seeds 1 --steps 6 --equal time --out tamed --json
    rm "$XDG_DATA_HOME/moefw/plugins/routers/wild.so"
    [ "$status" -eq 5 ]
    [[ "$output" == *'"skipped":[{"router":"wild","reason":"its pilot failed: step 1: '* ]] || { echo "$output"; return 1; }
    [[ "$output" == *'"rows":[{"router":"hash","baseline":true,'*'"n":1,'* && "$output" != *'"rows":'*'"router":"wild","baseline"'* ]]
}

@test "a baseline that is not in the list is its first router" {
    run --separate-stderr small --routers linear --baseline hash --seeds 1 --steps 2 --out other_baseline --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"baseline":"hash"'*'"rows":[{"router":"hash","baseline":true,'*'{"router":"linear","baseline":false,'* ]]
    [ -d other_baseline/hash/seed-1 ]
}

@test "a worse router is called worse, an equal one is not" {
    run --separate-stderr small --routers linear,handicap:share=0,linear:train.lr=0.00001 --seeds 3 \
        --steps 30 --out worse --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'{"router":"handicap:share=0"'*'"diff":0,'*'"verdict":"no difference shown"'*'{"router":"linear:train.lr=0.00001"'*'"verdict":"worse"'* ]]
    run "$MOEFW" compare worse -t 1 -q
    grep -qE '^ +1 linear .*baseline$' <<<"$output"
    grep -qE '^ +3 linear:train.lr=0.00001 .*worse ' <<<"$output"
}

@test "eight seeds unless told otherwise; what they can show is said before the runs" {
    run --separate-stderr small --routers linear,hash,handicap --steps 1 --set train.eval_context=0 \
        --out eight --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"seeds":8,'* ]]
    line='8 seeds show, in 4 of 5 comparisons, a difference of 1.3 standard deviations'
    [[ "$stderr" == *"$line"*'1 of 24: '* ]]
}

@test "the sign-flip p stands beside t from 6 seeds on" {
    [[ "$(cat eight/comparison.json)" == *'"router":"hash"'*'"p_flip":0'* ]]
    # of 2^8 choices of signs, so a multiple of 1 / 128; the baseline has none
    grep -o '"p_flip":[0-9][0-9.e-]*' eight/comparison.json | cut -d: -f2 |
        awk '{ n = $1 * 128; if (n < 1 || n - int(n) != 0) bad = 1 } END { exit bad || NR != 2 }'
    grep -q '"p_flip":null' two/comparison.json
    run "$MOEFW" compare eight -t 1 -q
    [[ "$output" == *" p "*" flip "* ]]
    grep -q '<th[^>]*>p by signs<' eight/report.html
}

@test "more seeds after a look are judged at a lower level, which table and report say" {
    small --routers linear,hash --seeds 2 --steps 2 --out look --json -q >first.json
    [[ "$(cat first.json)" == *'"level":0.05,"level_all_looks":0.05,"earlier_looks":[],'* ]]
    small --routers linear,hash --seeds 2 --steps 2 --out look --json -q | cmp first.json - # no new look
    run "$MOEFW" compare look --seeds 3 -t 1 -q
    [ "$status" -eq 0 ]
    output=$(tr '\n' ' ' <<<"$output")
    [[ "$output" == *"Verdicts of this look have level 0.025, because the results were shown before with 2 seeds"*"at most 7.5 %"* ]]
    [[ "$(cat look/comparison.json)" == *'"level":0.025,"level_all_looks":0.075'*'"earlier_looks":[2],'* ]]
    grep -q 'Results were shown 1 time before' look/report.html
    grep -q '"looks":\[2,3\]' look/plan.json
}

@test "a plan that comes after a look does not give back what was spent" {
    small --routers linear,hash --seeds 2 --steps 2 --out spent -q >/dev/null
    grep -q '"looks":\[2\],"levels":\[0.05\]' spent/plan.json
    late="--most-seeds: expected it before the first result; spent has shown results with 2 seeds at level 0.05, when none was planned"
    run small --routers linear,hash --seeds 3 --most-seeds 3 --steps 2 --out spent -q
    [[ "$status" -eq 2 && "$output" == *"$late"* ]]
    run "$MOEFW" compare spent --seeds 3 --most-seeds 3 -t 1 -q
    [[ "$status" -eq 2 && "$output" == *"$late"* ]]
    # nor does one that is written into the plan, whose levels stay
    sed -i 's/"most_seeds":0/"most_seeds":3/' spent/plan.json
    run --separate-stderr "$MOEFW" compare spent --seeds 3 -t 1 -q --json
    [[ "$output" == *'"level":0.025,"level_all_looks":0.075'* ]]
    grep -q '"looks":\[2,3\],"levels":\[0.05,0.025' spent/plan.json
    # the first table again, and plans of early versions, which have no levels
    run --separate-stderr "$MOEFW" compare spent --seeds 2 -t 1 -q --json
    [[ "$output" == *'"level":0.05,"level_all_looks":0.075'*'"earlier_looks":[3],'* ]]
    sed -i 's/"most_seeds":3/"most_seeds":0/;s/,"levels":[^]]*]//' spent/plan.json
    run --separate-stderr "$MOEFW" compare spent --seeds 3 -t 1 -q --json
    [[ "$output" == *'"level":0.025,"level_all_looks":0.075'* ]]
    sed -i 's/"levels":\[0.05,/"levels":[5,/' spent/plan.json
    run "$MOEFW" compare spent -t 1 -q
    [ "$status" -eq 3 ]
    [[ "$output" == *"plan.json: levels: expected a number from 0 to .1 for each look"* ]]
    # before a look the plan may change
    small --routers linear,hash --seeds 2 --most-seeds 4 --steps 2 --out spent2 -q >/dev/null
    run "$MOEFW" compare spent2 --most-seeds 5 -t 1 -q
    [[ "$status" -eq 2 && "$output" == *"at level 0.00557"*", when 4 were planned"* ]]
    sed -i 's/"looks":[^]]*]/"looks":[]/;s/"levels":[^]]*]/"levels":[]/' spent2/plan.json
    run --separate-stderr "$MOEFW" compare spent2 --most-seeds 2 -t 1 -q --json
    [[ "$output" == *'"level":0.05,"level_all_looks":0.05,"earlier_looks":[],"most_seeds":2'* ]]
}

@test "looks that are planned share the level" {
    small --routers linear,hash --seeds 2 --most-seeds 3 --steps 2 --out planned --json -q >first.json
    [[ "$(cat first.json)" == *'"level":0.0163'*'"most_seeds":3,'* ]] # 2 - 2 Phi(1.96 / sqrt(2 / 3))
    run --separate-stderr "$MOEFW" compare planned --seeds 3 -t 1 -q --json
    [[ "$output" == *'"level":0.0336'*'"level_all_looks":0.05,"earlier_looks":[2],"most_seeds":3,'* ]]
    sed -i 's/"looks":\[2,3\]/"looks":[3,2]/' planned/plan.json
    run "$MOEFW" compare planned -t 1 -q
    [ "$status" -eq 3 ]
    [[ "$output" == *"plan.json: looks: expected numbers of seeds, ascending"* ]]
}

@test "the probability of being better by more than a difference" {
    run --separate-stderr "$MOEFW" compare worse -t 1 -q --json --delta 0
    [[ "$output" == *'"delta":0,'*'{"router":"linear:train.lr=0.00001"'*'"p_better":0.0'* ]]
    run "$MOEFW" compare worse -t 1 -q --delta 0.01
    [[ "$output" == *"P(>delta)"* ]]
    grep -q 'P(better by &gt; 0.01)' worse/report.html
    run "$MOEFW" compare worse -t 1 -q --delta -1
    [ "$status" -eq 2 ]
}

# A router against itself under another name of its weights, so with other initial values. The
# share of such comparisons that find a difference is the level, 5 %.
@test "200 comparisons of a router with itself, 5 seeds each (slow)" {
    [ -n "$MOEFW_SLOW" ] || skip "MOEFW_SLOW=1 asks for it"
    twin=$XDG_DATA_HOME/moefw/plugins/routers/twin.so
    ${CC:-cc} -std=gnu11 -O1 -DWEIGHT='"twin"' -DNAME='"twin"' -I"$srcdir/include" \
        -I"$builddir/include" -fPIC -fvisibility=hidden -shared -o "$twin" \
        "$srcdir/tests/plugins/third_party/handicap.c" -lm
    found=0
    for ((i = 0; i < 200; i++)); do
        small --routers handicap:share=0,twin:share=0 --seeds 5 --steps 12 --out self --json -q \
            --set train.seed=$((1 + 5 * i)) --set train.eval_context=0 --set train.lr=0.01 \
            --set model.heads=2 --set model.seq=32 --set expert.hidden=32 \
            --set 'data.path=builtin:topics?bytes=20000' >self.json
        [[ "$(cat self.json)" != *'"diff":0,"diff_ci95":[0,0]'*'"diff":0,"diff_ci95":[0,0]'* ]]
        p=$(grep -o '"p":[0-9.e-]*' self.json | tail -1 | cut -d: -f2)
        awk -v p="$p" 'BEGIN { exit !(p < .05) }' && found=$((found + 1))
        rm -r self
    done
    # Wilson's interval; 1 to 20 of 200 have probability .997 if the level is .05
    awk -v k=$found 'BEGIN { n = 200; z = 1.96; s = k / n; m = (s + z * z / (2 * n)) / (1 + z * z / n)
        h = z * sqrt(s * (1 - s) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        printf "# %d of %d self-comparisons flagged: %.1f %% [%.1f, %.1f]\n", k, n, 100 * s, 100 * (m - h), 100 * (m + h) }' >&3
    [ $found -ge 1 ]
    [ $found -le 20 ]
}

# search ARGUMENT...: like small, for searches
search() {
    small --set train.warmup=2 "$@"
}

@test "a grid: all combinations are tried, the winner runs again with new seeds against the plain router" {
    run --separate-stderr search --routers linear --grid train.lr=1e-5,1e-2 --grid train.weight_decay=0.1,0 \
        --seeds 2 --steps 12 --out grid --json
    echo "$stderr"
    [ "$status" -eq 0 ]
    echo "$output" >grid.json
    [ "$(grep -o '"settings":"[^"]*"' grid.json | sort -u | wc -l)" -eq 4 ]
    for one in 1e-5+train.weight_decay=0.1 1e-5+train.weight_decay=0 1e-2+train.weight_decay=0.1 1e-2+train.weight_decay=0; do
        grep -q "\"settings\":\"train.lr=$one\"" grid.json
    done
    [[ "$output" == *'"tried":4,"runs":4,'* ]]
    # trials have seed 1, the winner and the plain router seeds 2 and 3
    [ -d grid/search/rung-0/*1e-5*decay=0/seed-1 ]
    [ "$(ls -d grid/linear*/seed-? | sed 's/.*seed-//' | sort | tr '\n' ' ')" = "2 2 3 3 " ]
    [[ "$output" == *'"baseline":"linear"'* ]]
    # The winner is the trial with the lowest mean.
    best=$(sed 's/"router":/\n&/g' grid.json | sed -n 's/.*"settings":"\([^"]*\)".*"failed":0,"mean":\([0-9.]*\),.*/\2 \1/p' |
        sort -n | sed -n '1s/.* //p')
    [[ "$output" == *"\"winners\":\"linear,linear:$best\""* ]]
    [[ "$output" == *"{\"router\":\"linear:$best\""* ]]
    [ "$output" = "$(cat grid/comparison.json)" ]
}

@test "it continues: nothing runs twice, more seeds are for the winner, the page and the text show the trials" {
    stat -c '%Y %n' grid/search/rung-0/*/seed-*/metrics.jsonl >before
    run --separate-stderr "$MOEFW" compare grid -t 1 --seeds 3
    echo "$output"
    [ "$status" -eq 0 ]
    stat -c '%Y %n' grid/search/rung-0/*/seed-*/metrics.jsonl | diff before -
    [ -d grid/linear/seed-4 ]
    [[ "$output" == "Tried: 4 settings of 1 router, 4 runs in all"*"* "*"linear:train.lr="*"ran again"* ]]
    grep -q "What was tried" grid/report.html
    [ "$(grep -o 'train.lr=1e-[25]+train.weight_decay=0.1' grid/report.html | sort -u | wc -l)" -eq 2 ]
    run "$MOEFW" compare grid --grid train.lr=1,2
    [ "$status" -eq 2 ]
    [[ "$output" == *"is a search, which continues as it was planned"* ]]
}

@test "draws follow from the seed, are the same for every router, and lie in their range" {
    draw=(--routers linear,hash --draw train.lr=log:1e-4..1e-2 --draw model.heads=1,2 --budget 3 --seeds 2 --steps 4)
    search "${draw[@]}" --out a --json >a.json
    search "${draw[@]}" --out b --json >b.json
    [ "$(timeless <a.json)" = "$(timeless <b.json)" ]
    grep -o '"settings":"[^"]*"' a.json | sort -u >settings
    cat settings
    [ "$(wc -l <settings)" -eq 3 ]
    sed -n 's/.*train.lr=\([^+]*\)+.*/\1/p' settings | awk '$1 < 1e-4 || $1 > 1e-2 { exit 1 }'
    for router in linear hash; do
        [ "$(grep -o "\"router\":\"$router\",\"trial\"" a.json | wc -l)" -eq 3 ]
    done
    # the winner of the configuration's router is the baseline
    grep -q '"baseline":"linear:train.lr=' a.json
    search "${draw[@]}" --set train.seed=7 --out c --json >c.json
    ! grep -qF "$(sed -n 1p settings)" c.json || false
}

@test "halving: rungs grow, a third enters the next, the last trains all steps" {
    run --separate-stderr search --routers linear --draw train.lr=log:1e-5..1e-2 --budget 9 --halving \
        --seeds 2 --steps 30 --out half --json
    echo "$stderr"
    [ "$status" -eq 0 ]
    [ "$(grep -o '"trial":' half/search.json | wc -l)" -eq 12 ]
    [ "$(grep -o '"steps":[0-9]*,"metric"' half/search.json | tr '\n' ' ')" = '"steps":10,"metric" "steps":30,"metric" ' ]
    [ "$(grep -o '"kept":true' half/search.json | wc -l)" -eq 4 ]
    for one in half/search/rung-0/*/seed-1/metrics.jsonl; do
        tail -n 1 "$one" | grep -q '"step":10,'
    done
}

@test "a search that is killed continues with the same result" {
    call=(--routers linear --grid train.lr=1e-5,1e-3,1e-2 --seeds 2 --steps 30)
    search "${call[@]}" --out unbroken --json >unbroken.json
    # the program itself, not a subshell, is killed
    "$MOEFW" compare default -t 1 --set 'data.path=builtin:topics?bytes=40000' \
        --set model.layers=1 --set model.dim=32 --set train.batch=2 --set train.save_every=10 \
        --set train.warmup=2 "${call[@]}" --out broken --json >/dev/null 2>&1 &
    pid=$!
    for _ in $(seq 300); do
        ls broken/search/rung-0/*/seed-1/metrics.jsonl >/dev/null 2>&1 && break
        sleep 0.1
    done
    kill -KILL $pid
    wait $pid || true
    run --separate-stderr "$MOEFW" compare broken -t 1 --json
    echo "$stderr"
    [ "$status" -eq 0 ]
    diff <(echo "$output" | timeless | sed 's/,/,\n/g') <(timeless <unbroken.json | sed 's/,/,\n/g')
}

@test "what cannot be searched is refused before anything runs" {
    refused() {
        run search --out none "${@:2}"
        echo "$output"
        [ "$status" -eq 2 ]
        [[ "$output" == *$1* ]]
        [ ! -e none ]
    }
    refused "did you mean 'lr'" --grid train.lrr=1,2
    refused "--grid: 'lr'" --grid train.lr=1,x
    refused "--draw: expected --budget N" --draw train.lr=log:1e-4..1e-2
    refused "LO above 0 after log:" --draw train.lr=log:0..1 --budget 3
    refused "two numbers LO..HI" --draw train.lr=uniform:2..1 --budget 3
    refused "whole numbers" --draw model.dim=int:1.5..3 --budget 3
    refused "SECTION.KEY=VALUE" --grid lr=1,2
    refused "is given twice" --grid train.lr=1,2 --draw train.lr=1,2 --budget 3
    refused "at most 2, the combinations of --grid" --grid train.lr=1e-3,1e-2 --budget 3
    refused "two trials or more" --grid train.lr=1e-3
    refused "ranges are drawn by --draw" --grid train.lr=log:1e-4..1e-2
    refused "expected --grid or --draw" --budget 3
    refused "train.seed is what trials are repeated over" --grid train.seed=1,2
    refused "need train.steps" --grid train.lr=1,2,3,4,5,6,7,8,9 --halving --steps 20
    mkdir -p full && touch full/other
    run search --out full --grid train.lr=1e-3,1e-2
    [ "$status" -eq 2 ]
    [[ "$output" == *"holds files already (other)"* ]]
}

@test "grids and draws that are wrong: exit 2, what is expected, nothing written" {
    long=$(printf '1%.0s' {1..70})
    while IFS='|' read -r option value expected; do
        run --separate-stderr search --routers linear "$option" "$value" --budget 2 --steps 2 --out search-wrong
        echo "$option $value: $stderr"
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"$expected"* ]]
        [ ! -e search-wrong ]
    done <<TXT
--draw|train.lr=log:1e-2|KEY=log:LO..HI
--draw|train.lr=log:..1|KEY=log:LO..HI
--draw|train.lr=log:$long..1|KEY=log:LO..HI
--draw|train.lr=log:a..1|two numbers LO..HI
--draw|train.lr=log:1..b|two numbers LO..HI
--draw|train.lr=uniform:0..inf|two numbers LO..HI
--draw|moe.experts=int:1..3.5|whole numbers
--draw|moe.experts=int:1..2e9|whole numbers
--draw|train.lr|SECTION.KEY=log:LO..HI
--draw|lr=1,2|SECTION.KEY=log:LO..HI
--draw|.lr=1,2|SECTION.KEY=log:LO..HI
--draw|train.=1,2|SECTION.KEY=log:LO..HI
--grid|train.lr=|SECTION.KEY=VALUE
--grid|train.lr=1e-3,,1e-2|single commas
--grid|train.lr=log:1..2|ranges are drawn by --draw
--grid|data.path=a+b,c|without '+' before a letter
TXT
    many=$(seq -s, 1 200)
    run --separate-stderr search --routers linear --grid "train.steps=$many" --grid "train.batch=$many" --out search-wrong
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"expected at most "*" trials, found 40000"* ]]
    run --separate-stderr search --routers linear,hash --baseline random --grid train.lr=1e-3,1e-2 --steps 2 --out search-wrong
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--baseline: expected one of the routers searched, found 'random'"* ]]
    touch search-file
    run --separate-stderr search --routers linear --grid train.lr=1e-3,1e-2 --steps 2 --out search-file
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"expected a directory, found a file"* ]]
    mkdir search-other && touch search-other/mine.txt
    run --separate-stderr search --routers linear --grid train.lr=1e-3,1e-2 --steps 2 --out search-other
    [ "$status" -eq 2 ]
    [ "$(ls search-other)" = mine.txt ]
}

@test "a search in text: rungs, a setting that fails, whole numbers; a damaged plan is refused" {
    run --separate-stderr search --routers linear --draw train.warmup=int:1..3 --draw train.lr=uniform:1e-4..1e-3 \
        --budget 9 --halving --seeds 2 --steps 30 --out search-text
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"rung 1, 10 steps, "*"rung 2, 30 steps, "*"linear:train.warmup="* ]]
    grep -oE '"settings":"train.warmup=[^+]*' search-text/search.json | sort -u >search-drawn
    grep -qE '=[123]$' search-drawn
    ! grep -vE '=[123]$' search-drawn || false
    run --separate-stderr search --routers linear,expert_choice --grid train.lr=1e-3,1000 --set train.clip=0 \
        --seeds 2 --steps 12 --out search-fails
    echo "$output"
    [[ "$output" == *"failed "*"train.lr=1000"* ]]
    [[ "$output" == *"* "*"train.lr=1e-3"* ]]
    [[ "$stderr" == *"trial expert_choice:train.lr=1e-3 is skipped: "*"causal"* ]] || { echo "$stderr"; return 1; }
    [[ "$stderr" == *"no trial of expert_choice has a result"* ]] || { echo "$stderr"; return 1; }
    [[ "$stderr" != *"no trial of linear"* ]]
    for damage in 's/"budget":9/"budget":-1/' 's/"budget":9/"budget":1e9/' 's/"trial_seeds":1/"trial_seeds":0/' \
        's/"halving":true/"halving":1/' 's/"draw":\[/"draw":[7,/'; do
        rm -rf damaged
        cp -r search-text damaged
        sed -i "$damage" damaged/search.json
        ! cmp -s search-text/search.json damaged/search.json || { echo "$damage changes nothing"; return 1; }
        run --separate-stderr "$MOEFW" compare damaged -t 1 -q
        echo "$damage: $status $stderr"
        [ "$status" -eq 3 ]
        [[ "$stderr" == *"expected plan, grid, draw, budget, halving and trial_seeds"* ]]
    done
}
