#!/bin/bash
# The first process of the virtual machine: what a Debian would have mounted, then the job, then off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C
exec </dev/null
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t debugfs debug /sys/kernel/debug
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mkdir -p /run/netns /run/lock /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,ro host /host
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 out /out
ip link set lo up
echo fairmesh >/proc/sys/kernel/hostname

# What the job prints leaves through a port of its own; the console is the kernel's.
port=
while [ -z "$port" ]; do
    port=$(grep -l '^report$' /sys/class/virtio-ports/*/name 2>/dev/null)
    [ -n "$port" ] || sleep 0.02
done
port=/dev/$(basename "$(dirname "$port")")
while [ ! -c "$port" ]; do sleep 0.02; done

mapfile -d '' -t job </out/.job
cd /host || exit
(exec >"$port" 2>&1; exec "${job[@]}")
echo $? >/out/.status
sync
echo o >/proc/sysrq-trigger
sleep 60
