#!/bin/sh
# Installs s3rver from npm below target/rivals/s3rver (or $SKERRY_RIVALS/s3rver), for s3rver.toml.
# May be run again: what is there stays. Needs Node 18 or later and npm.
set -eu
here=$(cd "$(dirname "$0")/../../.." && pwd)
place=${SKERRY_RIVALS:-$here/target/rivals}/s3rver
version=3.7.1
if [ -x "$place/node_modules/.bin/s3rver" ]; then
    echo "s3rver is there: $("$place/node_modules/.bin/s3rver" --version)"
    exit 0
fi
echo "installing s3rver $version with npm to $place ($(node --version))"
mkdir -p "$place"
npm install --prefix "$place" --no-audit --no-fund --loglevel=error "s3rver@$version"
echo "installed: $("$place/node_modules/.bin/s3rver" --version)"
