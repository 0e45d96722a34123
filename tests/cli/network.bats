# Ranks in network namespaces, which stand for machines: TCP with delay and loss, and over a slow link.
# Slow group; needs root, iproute2 and /dev/net/tun.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    . "$srcdir/tests/lib/ranks.bash"
    [ -n "$MOEFW_SLOW" ] || skip "slow: MOEFW_SLOW=1 runs it"
    ranks_setup
    [ "$(id -u)" -eq 0 ] || skip "namespaces need root"
    command -v ip >/dev/null || skip "no ip (package iproute2)"
    hosts=("moefw$$a" "moefw$$b")
    ip netns add "${hosts[0]}" && ip netns add "${hosts[1]}" || skip "no network namespaces"
}

teardown() {
    local host
    [ -z "$relay" ] || kill "$relay" 2>/dev/null || true
    for host in "${hosts[@]}"; do
        ip netns del "$host"
    done
}

# addresses: the interface `wire` of both hosts gets one, and works
addresses() {
    local i
    for i in 0 1; do
        ip -n "${hosts[i]}" address add "10.77.0.$((i + 1))/24" dev wire
        ip -n "${hosts[i]}" link set wire up
        ip -n "${hosts[i]}" link set lo up
    done
    # What starts a command on a host, as ssh would: ADDRESS COMMAND...
    cat >agent <<END
#!/bin/sh
case \$1 in 10.77.0.1) host=${hosts[0]} ;; *) host=${hosts[1]} ;; esac
shift
exec ip netns exec \$host unshare -u sh -c "hostname \$host; \$*"
END
    chmod +x agent
    cat >far <<END
#!/bin/sh
# mpirun of ranks on both hosts, over TCP
exec ip netns exec ${hosts[0]} unshare -u sh -c 'hostname ${hosts[0]}; exec "\$@"' sh $mpirun \\
    --host 10.77.0.1:2,10.77.0.2:2 --map-by node --mca plm_rsh_agent $PWD/agent --mca pml ob1 --mca btl tcp,self \\
    --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \\
    -x OMP_WAIT_POLICY -x XDG_CONFIG_HOME "\$@"
END
    chmod +x far
    mpirun=$PWD/far
}

@test "TCP with a delay of 5 ms that loses one of 100 frames: the same bits" {
    [ -c /dev/net/tun ] || skip "no /dev/net/tun"
    ${CC:-cc} -std=c17 -O1 -o relay "$srcdir/tests/lib/relay.c"
    ./relay "${hosts[@]}" "${DELAY:-5}" "${LOST:-10}" >ready 3>&- &
    relay=$!
    for i in $(seq 50); do
        [ -s ready ] && break
        sleep 0.1
    done
    addresses
    equal "2 4" default
    more=(--set parallel.expert=2)
    equal "2" default --set train.accumulate=3
    # Two of them are on another machine.
    run --separate-stderr ranks 4 bench comm --repetitions 1 --json
    [ "$status" -eq 0 ]
    grep '"latency","between":"nodes"' <<<"$output" | awk -F'[:,]' '{
        for (i = 1; i < NF; i++) if ($i == "\"us\"") us = $(i + 1); print us; exit !(us > 4900) }'
}

@test "a link of 400 Mbit/s: the same bits, and the backward pass hides most of the exchange" {
    command -v tc >/dev/null || skip "no tc (package iproute2)"
    ip link add wire netns "${hosts[0]}" type veth peer name wire netns "${hosts[1]}"
    addresses
    for host in "${hosts[@]}"; do
        tc -n "$host" qdisc add dev wire root tbf rate 400mbit burst 256kbit latency 100ms || skip "no tbf"
    done
    equal "2" default --set parallel.gradient=bf16
    for try in 1 2 3; do
        rm -rf many
        thin many default
        words+=(--set train.steps=4 --set train.batch=16 --set train.accumulate=2 --set model.seq=256
            --set model.dim=256 --set model.layers=4 --set moe.experts=4 --set expert.hidden=512
            --set "parallel.bucket=${BUCKET:-1}" --set train.save_every=0 --set train.eval_every=0
            --set train.eval_batches=1 --set train.final_batches=1)
        words=("${words[@]/#-q/-v}")
        run ranks 2 "${words[@]}"
        [ "$status" -eq 0 ]
        params=$(sed -n 's/.*"params":\([0-9]*\),.*/\1/p' many/manifest.json)
        waited=$(sed -n 's/.*, and waited \([0-9.]*\) s for gradients.*/\1/p' <<<"$output")
        grep 'rank 0 has sent' <<<"$output"
        # Half of 4 bytes for each parameter arrives in each of 4 steps. On a busy machine a rank also waits
        # for another one that was not given the processor, so the best of three counts.
        awk -v p="$params" -v waited="$waited" 'BEGIN {
            alone = 4 * 2 * p / 50e6
            printf "%.3f s of %.3f s were waited for: %.1f %% hidden\n", waited, alone, 100 * (1 - waited / alone)
            exit !(1 - waited / alone >= 0.8) }' && return
    done
    return 1
}
