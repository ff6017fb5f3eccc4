#!/usr/bin/env bash
# Runs the tests, in both builds, with real tracers. On a fresh Debian or Ubuntu with Go and
# gcc it installs everything else.
#
#   scripts/test.sh          runs the tests for a change, within ten minutes
#   scripts/test.sh --all    also runs the long tests, the race detector, older and newer Go,
#                            emulated architectures and kernels, sanitizers, linters and
#                            the documentation, as CI does
#
# The tests themselves say where they run: see internal/testenv. With CI=true a test fails, and
# is not skipped, if a tool or root is missing. The one exception is a package that Debian's mirror
# serves otherwise than Debian has signed it: see scripts/lib/debian.sh. The last lines name each.
set -euo pipefail
cd "$(dirname "$0")/.."

all=''
case "$*" in
"") ;;
--all) all=yes ;;
*)
	echo "usage: scripts/test.sh [--all]" >&2
	exit 2
	;;
esac

scripts/tools.sh ${all:+--all}
command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }
# shellcheck source=scripts/lib/check.sh
. scripts/lib/check.sh
# shellcheck source=scripts/lib/install.sh
. scripts/lib/install.sh
# shellcheck source=scripts/lib/debian.sh
. scripts/lib/debian.sh
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
export STAPSDT_FAULTS=$temp/faults
: >"$STAPSDT_FAULTS"

# has_docker reports whether a docker daemon answers, which CI cannot be expected to have:
# the workflow's job of that name does.
has_docker() {
	[ "$(id -u)" -eq 0 ] && command -v docker >/dev/null && docker info >/dev/null 2>&1 && return
	echo "skipped: scripts/lib/docker_test.sh, because no docker daemon answers to root"
	return 1
}

# may_attach reports whether this user may attach tracers; with CI=true it must be so.
may_attach() {
	[ "${CI:-}" = true ] || [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null && return
	echo "skipped: it attaches tracers, which needs root"
	return 1
}

# run COMMAND... runs it in a shell of its own that stops at the first failure. The command
# must not be part of a condition, because set -e has no effect there: hence the result is
# in status.
run() {
	set +e
	(set -e; "$@")
	status=$?
	set -e
}

# step NAME COMMAND... runs the command and counts the result, and continues if it fails. It
# prints the seconds until it began. With --all, a step that fails is run once more, if it
# tests packages with those that failed: the machines are noisy, and a test of three thousand
# must not cost the whole run. The verdict names these steps, because each is a defect of a test
# or of the product. A step without packages because of a fault of Debian's mirror is not counted: the
# verdict names it.
repeated=() unrun=()
step() {
	local name=$1 status faults
	shift
	printf '\n== %s (%d s)\n' "$name" "$SECONDS"
	rm -f "$temp/tested" "$temp/failed"
	faults=$(wc -l <"$STAPSDT_FAULTS")
	run "$@"
	if [ "$status" -eq "$debian_fault" ] && [ "$(wc -l <"$STAPSDT_FAULTS")" -gt "$faults" ]; then
		unrun+=("$name")
		return
	fi
	if [ "$status" -ne 0 ] && [ -n "$all" ]; then
		[ ! -e "$temp/tested" ] || sed -n 's/^FAIL\t\([^ \t]*\).*/\1/p' "$temp/tested" >"$temp/failed"
		printf '\n== again: %s (%d s)\n' "$name" "$SECONDS"
		repeated+=("$name")
		run "$@"
	fi
	if [ "$status" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "not ok: $name"
	fi
}

# finish prints the result, and the time that it took.
finish() {
	local name
	echo
	for name in ${repeated[@]+"${repeated[@]}"}; do echo "failed the first time: $name"; done
	if [ -s "$STAPSDT_FAULTS" ]; then
		echo "DEBIAN'S MIRROR SERVES OTHER FILES THAN DEBIAN HAS SIGNED. Tests were skipped or had other packages:"
		sort -u "$STAPSDT_FAULTS"
		for name in ${unrun[@]+"${unrun[@]}"}; do echo "NOT RUN: $name"; done
	fi
	echo "$SECONDS s"
	verdict
}

modules=(. internal/test cmd/stapsdt instrument/grpcprobe instrument/otelprobe examples/http examples/lua examples/wasm)

# vetted ENVIRONMENT... runs go vet in each module, with that environment.
vetted() {
	local module
	for module in "${modules[@]}"; do env -C "$module" "$@" go vet ./...; done
}

formatted() {
	[ -z "$(gofmt -l .)" ] || { gofmt -d .; return 1; }
}

# generated makes every generated file again, in its place, and fails if one was different.
generated() {
	local file module changed=0 files
	mapfile -t files < <(grep -rlE --include='*.go' '^// Code generated .* DO NOT EDIT\.$' .)
	[ ${#files[@]} -gt 0 ]
	for file in "${files[@]}"; do install -D "$file" "$temp/generated/$file"; done
	for module in "${modules[@]}"; do go generate -C "$module" ./...; done
	for file in "${files[@]}"; do cmp "$temp/generated/$file" "$file" || changed=1; done
	go mod verify
	return $changed
}

# elsewhere TARGET... vets the root for other systems and architectures.
elsewhere() {
	local target
	for target in "$@"; do GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go vet ./...; done
}

# The packages of the modules that need more than the root's users should have to download. The first one
# takes longest and mostly waits: the others run beside it.
others=(./internal/test/command ./internal/test/... ./cmd/stapsdt/... ./instrument/{grpc,otel}probe/...)

# tested CGO FLAG... tests the root and the packages in others, one package more at a time than there are processors, because
# many tests mostly wait. When it is run again, it tests what has failed.
tested() {
	local cgo=$1 packages=("${others[@]}" ./...)
	shift
	[ ! -s "$temp/failed" ] || mapfile -t packages <"$temp/failed"
	CGO_ENABLED=$cgo go test -p $(($(nproc) + 1)) -timeout 30m -shuffle=on "$@" "${packages[@]}" | tee "$temp/tested"
}

examples() {
	local example
	for example in http lua wasm; do go test -C examples/$example -timeout 30m ./...; done
}

demo() {
	scripts/demo.sh
	CGO_ENABLED=0 scripts/demo.sh
	[ "$(go env GOHOSTARCH)" != amd64 ] || GOARCH=386 CGO_ENABLED=0 scripts/demo.sh
}

# version GO tests the root as its users build it with that version of Go.
version() {
	export GOWORK=off GOTOOLCHAIN=$1
	persistently go version
	go test -short ./...
	CGO_ENABLED=0 go test -short ./...
}

step "gofmt" formatted
step "generated files" generated
if [ -z "$all" ]; then
	step "go test -short, CGO_ENABLED=1" tested 1 -short
	others=()
	step "go test -short, CGO_ENABLED=0" tested 0 -short
	step "make -C cstapsdt test, plain and with ASan" env QUICK=yes make -C cstapsdt test
	step "examples" examples
	if may_attach; then step "scripts/demo.sh" demo; fi
	finish
	exit
fi

for cgo in 1 0; do step "go vet, CGO_ENABLED=$cgo" vetted CGO_ENABLED=$cgo; done
step "other systems compile, and an architecture without probes" elsewhere darwin/arm64 windows/amd64 linux/loong64
for cgo in 1 0; do step "go test, CGO_ENABLED=$cgo" tested $cgo; done
# What is left out of these has the goroutines and the inlining of tests alone.
others=(./internal/test/process/... ./internal/test/arguments/... ./cmd/stapsdt/... ./instrument/{grpc,otel}probe/...)
step "go test, race detector" tested 1 -short -race
others=(./internal/test/process/... ./internal/test/arguments/...)
# What observers need must work where there are no sites: on other systems.
step "go test, -tags stapsdt_noload" go test -short -tags stapsdt_noload ./...
step "go test, -tags stapsdt_nocgo, without optimization" tested 1 -short -tags stapsdt_nocgo -gcflags='all=-N -l'
# The version of the go directive, and the two newest versions when this was written.
oldest=go$(sed -n 's/^go //p' go.mod)
[[ $oldest == go*.*.* ]] || oldest=$oldest.0
for go in "$oldest" go1.26.8 go1.27.4; do
	[ "$(go env GOVERSION)" = "$go" ] || step "$go" version "$go"
done
step "the root without its workspace" env GOWORK=off go test -short .
step "make -C cstapsdt test" make -C cstapsdt test
step "examples" examples
step "scripts/lib/architectures.sh" scripts/lib/architectures.sh
step "scripts/lib/lint.sh" scripts/lib/lint.sh
if debian_archive >/dev/null; then # the kernels and the system are Debian's
	step "scripts/lib/kernels.sh --quick" scripts/lib/kernels.sh --quick
	step "scripts/lib/deb.sh --quick" scripts/lib/deb.sh --quick
	step "scripts/lib/release_test.sh --quick" scripts/lib/release_test.sh --quick
	if [ "$(id -u)" -eq 0 ]; then step "scripts/lib/builders.sh" scripts/lib/builders.sh; fi
fi
if may_attach; then
	step "scripts/lib/soak.sh 20" scripts/lib/soak.sh 20 5m # which a busy machine may take for it
	if has_docker; then step "scripts/lib/docker_test.sh" scripts/lib/docker_test.sh; fi
	step "scripts/demo.sh" demo
fi
finish
