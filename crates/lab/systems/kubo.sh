#!/bin/sh
# Builds kubo (IPFS) from its Go module to target/rivals/kubo (or $SKERRY_RIVALS/kubo), for kubo.toml.
# May be run again: what is there stays. Needs Go 1.25 or later; minutes on two cores, about 1.5 GB of memory.
set -eu
here=$(cd "$(dirname "$0")/../../.." && pwd)
place=${SKERRY_RIVALS:-$here/target/rivals}/kubo
version=v0.42.0
if [ -x "$place/ipfs" ]; then
    echo "kubo is there: $("$place/ipfs" version)"
    exit 0
fi
echo "building kubo $version with $(go version) to $place"
mkdir -p "$place"
GOBIN="$place" nice go install -p "${GO_JOBS:-1}" "github.com/ipfs/kubo/cmd/ipfs@$version"
echo "installed: $("$place/ipfs" version)"
