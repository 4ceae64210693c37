#!/bin/sh
# Installs Ceph (monitor, manager, OSD, gateway) from Debian's packages, for ceph-rgw.toml. Nothing is started.
# May be run again: what is there stays. Needs root.
set -eu
programs="ceph-mon ceph-mgr ceph-osd radosgw ceph ceph-authtool monmaptool radosgw-admin"
missing=""
for program in $programs; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
if [ -z "$missing" ]; then
    echo "Ceph is there: $(ceph-mon --version)"
    exit 0
fi
echo "missing:$missing"
echo "installing Debian's ceph-mon ceph-mgr ceph-osd radosgw ceph-common (about 73 MB, 285 MB on disk)"
apt-get update -qq
# Services of the package would run outside the emulated hosts: where there is a service manager they are masked.
if [ -d /run/systemd/system ]; then
    systemctl mask ceph.target ceph-mon.target ceph-mgr.target ceph-osd.target ceph-radosgw.target
fi
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    ceph-mon ceph-mgr ceph-osd radosgw ceph-common
echo "installed: $(ceph-mon --version)"
