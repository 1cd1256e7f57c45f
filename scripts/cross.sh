#!/usr/bin/env bash
# Builds the binary for the platforms that we support, without cgo. $1 holds the linker flags.
set -euo pipefail

build() { # OS ARCH [ARM]
	local out="dist/tailrace-$1-$2${3:+v$3}"
	[ "$1" = windows ] && out="$out.exe"
	echo "cross: $out"
	CGO_ENABLED=0 GOOS=$1 GOARCH=$2 GOARM=${3:-} go build -trimpath -ldflags "$ldflags" -o "$out" .
}

ldflags=${1:-}
mkdir -p dist
build linux amd64
build linux arm64
build linux arm 7
build darwin arm64
build darwin amd64
build windows amd64
