#!/usr/bin/env bash
# Runs every test, in both builds, with real tracers. On a fresh Debian or Ubuntu
# with Go and gcc it installs the rest. With CI=true nothing is skipped for want
# of a tool or of root.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/tools.sh
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }

# may_attach reports whether this user may attach tracers; with CI=true it must be so.
may_attach() {
	[ "${CI:-}" = true ] || [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null && return
	echo "skipped: it attaches tracers, which needs root"
	return 1
}

# step NAME: what comes next, and the seconds until now.
step() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

step "go vet, gofmt, generated files"
[ -z "$(gofmt -l .)" ] || { gofmt -d . ; exit 1; }
for cgo in 1 0; do CGO_ENABLED=$cgo go vet ./...; done
(cd internal/image && go run ./gen ../../cstapsdt/arch.def "${TMPDIR:-/tmp}/arch_table.$$" &&
	cmp arch_table.go "${TMPDIR:-/tmp}/arch_table.$$" && rm "${TMPDIR:-/tmp}/arch_table.$$")
go mod verify >/dev/null

step "other systems compile, and an architecture without probes"
for target in linux/loong64 darwin/arm64 windows/amd64 freebsd/amd64; do
	GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go vet ./...
done

step "go test, cgo"
go test -shuffle=on ./...
step "go test, cgo, race detector"
go test -race -shuffle=on -skip 'SystemCall|Killed|Anonymous|Vanishing|Mounts|AnotherUser|ManyProcesses|Bpftrace|Listings|Scratch|Script' \
	. ./internal/region ./internal/site ./internal/image
step "go test, CGO_ENABLED=0"
CGO_ENABLED=0 go test -shuffle=on ./...
step "go test, cgo, -tags stapsdt_nocgo, without optimisation"
go test -tags stapsdt_nocgo -gcflags='all=-N -l' -shuffle=on \
	-run 'Arguments|Strings|Typed|Pointers|Unload|Garbage|Concurrent|Bpftrace|Stack|Word|Texts|Patched|Arrive|Fuzz' .

step "internal/sandbox: seccomp, namespaces"
for cgo in 1 0; do (cd internal/sandbox && CGO_ENABLED=$cgo go vet ./... && CGO_ENABLED=$cgo go test ./...); done
step "internal/systest: every argument, through BPF"
for cgo in 1 0; do (cd internal/systest && CGO_ENABLED=$cgo go vet ./... && CGO_ENABLED=$cgo go test -shuffle=on ./...); done
step "scripts/soak.sh 20"
if may_attach; then scripts/soak.sh 20; fi

# The go directive's, and the two newest when this was written.
oldest=go$(sed -n 's/^go //p' go.mod)
[[ $oldest == go*.*.* ]] || oldest=$oldest.0
for version in "$oldest" go1.26.8 go1.27.4; do
	[ "$(go env GOVERSION)" != "$version" ] || continue
	step "$version"
	GOTOOLCHAIN=$version go test -run 'Lifecycle|TestImagesAreEqual' . ./cstapsdt
	GOTOOLCHAIN=$version CGO_ENABLED=0 go test ./internal/image ./internal/call ./internal/site ./internal/region
	GOTOOLCHAIN=$version CGO_ENABLED=0 go test -run 'Lifecycle|Patched|Arrive|Inline|Allocate|Unload|Bpftrace' .
done

step "make -C cstapsdt test"
make -C cstapsdt test

step "scripts/architectures.sh"
scripts/architectures.sh

step "scripts/lint.sh"
scripts/lint.sh

step "examples"
for example in http lua wasm; do
	(cd examples/$example && go vet ./... && go test ./...)
done
(cd examples/lua && CGO_ENABLED=0 go test ./...) # its allocations are others there

step "scripts/kernels.sh --quick"
if (. scripts/debian.sh && debian_archive >/dev/null); then scripts/kernels.sh --quick; fi # other kernels are Debian's

step "scripts/docs.sh"
if may_attach && [ "$(id -u)" -eq 0 ]; then scripts/docs.sh; fi

step "scripts/demo.sh"
if may_attach; then
	scripts/demo.sh
	CGO_ENABLED=0 scripts/demo.sh
	[ "$(go env GOHOSTARCH)" != amd64 ] || GOARCH=386 CGO_ENABLED=0 scripts/demo.sh
fi
