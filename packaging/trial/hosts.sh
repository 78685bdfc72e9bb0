# To be sourced: Debian hosts on this machine, each with a network, a disk and a running systemd.
#   trial_begin "$0" "$@"    runs the program again in namespaces that end with it
#   trial_hosts a b c d      boots them as 192.0.2.11, .12, …; this program is 192.0.2.9
#   on HOST COMMAND          by ssh, as root in /root; each COMMAND does it on ${hosts[@]}
#   trial_lose_system HOST   its system disk dies: the host boots with a new one, and its disks as they are
#   await SECONDS COMMAND... until it succeeds; the program ends with 1 if that takes too long
#   under_load COMMAND...    does it while clients write and read through the haproxy of the first host,
#                            with the key and the certificate in $key and $certificate; $load_failed is
#                            1 if a request failed, and the journals of ${hosts[@]} are asked why
# They need root, systemd-container and mmdebstrap. TRIAL_BASE is the root file system that they
# share, made at the first use: Debian 12, with the packages of the pages in the cache of apt. Remove
# it when this list changes.
# The hosts reach no other network. Each has an empty disk, /dev/sdb, and a spare one, /dev/sdc.

TRIAL_BASE=${TRIAL_BASE:-/var/tmp/martlet-trial/bookworm}
trial=/tmp/martlet-trial
hosts=()

trial_begin() {
    [ -z "${TRIAL_INSIDE:-}" ] || return 0
    for tool in mmdebstrap systemd-nspawn ssh mkfs.xfs; do
        command -v "$tool" >/dev/null || { echo "$tool is missing here" >&2; exit 1; }
    done
    [ -e "$TRIAL_BASE" ] || trial_base
    TRIAL_INSIDE=yes exec unshare --net --mount --pid --fork --kill-child --mount-proc "$@"
}

trial_base() {
    mkdir -p "$(dirname "$TRIAL_BASE")"
    mmdebstrap --quiet --variant=minbase --skip=cleanup/apt \
        --include=systemd-sysv,dbus,iproute2,openssh-server,ca-certificates,procps,curl,apt-utils,python3-apt \
        --customize-hook='chroot "$1" apt-get install -qq -y --download-only adduser chrony haproxy \
            memcached netbase nftables openssl prometheus python3 sqlite3 xfsprogs' \
        bookworm "$TRIAL_BASE.new"
    mv "$TRIAL_BASE.new" "$TRIAL_BASE"
}

trial_hosts() {
    local number=10 host
    mkdir -p "$trial" /run/netns
    mount -t tmpfs tmpfs "$trial" && mount -t tmpfs tmpfs /run/netns
    ip link add lan type bridge && ip addr add 192.0.2.9/24 dev lan
    ip link set lan up && ip link set lo up
    ssh-keygen -q -t ed25519 -N '' -f "$trial/id_ed25519"
    printf 'Host *\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n' >"$trial/ssh_config"
    trap trial_end EXIT
    for host in "$@"; do
        number=$((number + 1))
        echo "192.0.2.$number" >"$trial/$host.address"
        trial_build "$host" "192.0.2.$number"
        trial_boot "$host"
    done
    for host in "$@"; do
        trial_await_boot "$host"
    done
}

trial_build() {  # HOST ADDRESS
    local dir=$trial/$1 name
    mkdir -p "$dir"
    for name in disk spare; do
        truncate -s 2G "$dir/$name"
        losetup --find --show "$dir/$name" | tee "$dir/$name.device" >>"$trial/disks"
    done
    ip netns add "$1" && ip link add "to-$1" type veth peer name eth0 netns "$1"
    ip link set "to-$1" master lan up
    ip -n "$1" link set lo up
    ip -n "$1" addr add "$2/24" dev eth0
    ip -n "$1" link set eth0 up
}

trial_boot() {  # HOST
    local dir=$trial/$1 disk spare
    disk=$(cat "$dir/disk.device") spare=$(cat "$dir/spare.device")
    mkdir -p "$dir"/{upper,work,root}
    mount -t overlay overlay "$dir/root" \
        -o "lowerdir=$TRIAL_BASE,upperdir=$dir/upper,workdir=$dir/work"
    echo "$1" >"$dir/root/etc/hostname"
    printf '%s;\n' 'APT::Get::Assume-Yes "true"' 'Dpkg::Use-Pty "0"' 'quiet "2"' \
        >"$dir/root/etc/apt/apt.conf.d/90trial"
    mkdir -p -m 700 "$dir/root/root/.ssh"
    cp "$trial/id_ed25519" "$dir/root/root/.ssh/"
    cp "$trial/id_ed25519.pub" "$dir/root/root/.ssh/authorized_keys"
    cp "$trial/ssh_config" "$dir/root/root/.ssh/config"
    # No machined and no scope of a systemd of this machine: it may have none.
    systemd-nspawn --quiet --register=no --keep-unit --boot --machine="$1" --directory="$dir/root" \
        --network-namespace-path="/run/netns/$1" --capability=CAP_NET_ADMIN \
        --console=pipe --link-journal=no \
        --bind="$disk:/dev/sdb" --bind="$disk" --bind="$spare:/dev/sdc" --bind="$spare" \
        --bind=/dev/loop-control </dev/null >"$dir/console" 2>&1 &
    echo $! >"$dir/pid"
}

trial_lose_system() {  # HOST
    local dir=$trial/$1 pid
    pid=$(cat "$dir/pid")
    kill -KILL "$(pgrep -P "$pid")"  # its first process, and with it all others
    wait "$pid" || true
    umount "$dir/root"
    rm -r "$dir"/{upper,work}
    rm -f "$trial/known_hosts"
    trial_boot "$1"
    trial_await_boot "$1"
}

trial_await_boot() {  # HOST
    local attempt
    for attempt in $(seq 150); do
        on "$1" 'systemctl is-system-running --wait >/run/booted; [ -s /run/booted ]' 2>/dev/null && break
        [ "$attempt" -lt 150 ] || { tail "$trial/$1/console" >&2; exit 1; }
        sleep 0.2
    done
    on "$1" 'grep -q running /run/booted || systemctl --failed --no-legend --plain'
}

trial_end() {  # the namespaces end the rest
    xargs -r -n 1 umount -A -l 2>/dev/null <"$trial/disks" || true
    xargs -r losetup --detach <"$trial/disks" || true
}

on() {
    ssh -F "$trial/ssh_config" -i "$trial/id_ed25519" -o "UserKnownHostsFile=$trial/known_hosts" \
        "root@$(cat "$trial/$1.address")" "$2"
}

await() {  # SECONDS COMMAND
    local ends=$((SECONDS + $1))
    until "${@:2}"; do
        [ $SECONDS -lt $ends ] || { echo "not in time: ${*:2}" >&2; exit 1; }
        sleep 1
    done
}

each() { local host; for host in "${hosts[@]}"; do on "$host" "$1"; done; }

under_load() {
    printf '\n== under load: %s\n' "$*"
    coproc load { "$root/packaging/trial/load.py" 192.0.2.11 "$key" "$certificate"; }
    local program=$load_PID said=${load[0]} ends=${load[1]} out hold
    exec {hold}>&"$ends" {out}<&"$said"
    exec {ends}>&-
    sleep 1  # some requests before it
    # Without the pipes: what it leaves behind, such as a master of ssh, would hold them open.
    "$@" {hold}>&- {out}<&-
    sleep 1  # and after it
    exec {hold}>&-
    tee "$trial/load" <&"$out"
    exec {out}<&-
    load_failed=0
    wait "$program" && return
    load_failed=1
    { grep -o 'tx[0-9a-f-]*' "$trial/load" || true; } | while read -r id; do
        each "journalctl -q --no-pager -o short-iso-precise | grep $id || true" </dev/null
    done
}
