#!/bin/bash
# The first process of the virtual machine: what a Debian would have mounted, then the job, then off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C
mount -t devtmpfs dev /dev
exec </dev/null >/dev/console 2>&1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t debugfs debug /sys/kernel/debug
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mkdir -p /run/netns /run/lock /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
for module in virtio_pci virtio_console 9pnet_virtio 9p; do modprobe "$module"; done
share() { mount -t 9p -o "trans=virtio,version=9p2000.L,msize=262144${2:-}" "$1" /mnt; }
# Into memory, as everything here: see image.sh.
if ! { share host ,ro && cp -a /mnt/. /host/ && umount /mnt; }; then
    echo "fairmesh: the shared folder does not fit into memory"
    echo o >/proc/sysrq-trigger
    sleep 60
fi
share out && cp /mnt/.job /run/job && umount /mnt
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

mapfile -d '' -t job </run/job
cd /host || exit
(exec >"$port" 2>&1; exec "${job[@]}")
echo $? >/out/.status
share out && cp -a /out/. /mnt/ && umount /mnt
echo o >/proc/sysrq-trigger
sleep 60
