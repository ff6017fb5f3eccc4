#!/usr/bin/env bash
# Proves a change, with real tracers. On a fresh Debian or Ubuntu with Go and gcc it installs everything else.
#
#   scripts/test.sh                   runs the gate, which every commit passes, as CI does
#   scripts/test.sh --all [PART...]   runs what takes longer, or these parts of it: see scripts/long.sh
#
# Only a defect can fail the gate. Nothing in it depends on the network once the tools and modules are there, on how long
# something takes, or on what else the machine does, and nothing is run again. The tests themselves say where they run: see
# internal/testenv. With CI=true a test fails, and is not skipped, if a tool or root is missing. What the machine itself lacks skips a
# test also then, and is listed at the end. .ci/run runs the gate with an empty module cache.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
"") ;;
--all)
	shift
	exec scripts/long.sh "$@"
	;;
*)
	echo "usage: scripts/test.sh [--all [PART...]]" >&2
	exit 2
	;;
esac

# shellcheck source=scripts/lib/raced.sh
. scripts/lib/raced.sh
temp=$(mktemp -d)
export STAPSDT_LACKING=$temp/machine
trap 'rm -rf "$temp"' EXIT

# step NAME COMMAND... runs the command in a shell of its own that stops at the first failure, prints its output when it has
# ended, and notes the result and the seconds. The next step runs whatever the result is.
step() {
	local name=$1 start=$SECONDS status=0 log
	shift
	log=$(mktemp "$temp/log.XXXXXX")
	# It must not be part of a condition, in which set -e has no effect.
	set +e
	(set -e; "$@") >"$log" 2>&1
	status=$?
	set -e
	{
		printf '\n== %s (%d to %d s)\n' "$name" "$start" "$SECONDS"
		cat "$log"
		[ "$status" -eq 0 ] || echo "not ok: $name"
	} >"$log.whole"
	cat "$log.whole"
	printf '%s %5d s  %s\n' "$([ "$status" -eq 0 ] && echo 'ok    ' || echo 'FAILED')" "$((SECONDS - start))" "$name" >>"$temp/steps"
}

# finish prints the tests for which the machine lacks something, and the steps, and fails if one failed.
finish() {
	local failed
	printf '\n'
	[ ! -e "$STAPSDT_LACKING" ] || { echo "not run, because of what this machine lacks:"; sort -u "$STAPSDT_LACKING"; }
	cat "$temp/steps"
	failed=$(grep -c '^FAILED' "$temp/steps" || true)
	printf '%d s\n%d passed, %d failed\n' "$SECONDS" "$(($(wc -l <"$temp/steps") - failed))" "$failed"
	[ "$failed" -eq 0 ]
}

# installed installs the tools. Without root, what a test lacks skips it.
installed() {
	local status=0
	scripts/tools.sh || status=$?
	[ "$status" -ne 1 ] || [ "${CI:-}" = true ] || { echo "skipped: what needs these tools" | tee "$temp/lacking"; return 0; }
	return "$status"
}

# tidy looks for files that have no place in the repository: those that .gitignore names, programs, and whatever is larger
# than 1 MB.
tidy() {
	git rev-parse --git-dir >/dev/null 2>&1 || { echo "This is no clone."; [ "${CI:-}" != true ]; return; }
	{
		git ls-files --cached --ignored --exclude-standard | sed 's/$/: .gitignore names it/'
		git ls-tree -r -l "$(git write-tree)" | awk -F '\t' '{ split($1, f, " ") } f[4] > 1048576 { print $2 ": " f[4] " bytes" }'
		git grep --cached -laP '\A\x7fELF' | sed 's/$/: a program/' || true
	} | tee "$temp/untidy"
	[ ! -s "$temp/untidy" ]
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
	return $changed
}

# vetted vets every module in the build with cgo, but the command, which is distributed without, and in the build without it the
# packages of the root that have other files then.
vetted() {
	local cgo packages format='{{.ImportPath}} {{.GoFiles}} {{.CgoFiles}} {{.SFiles}} {{.TestGoFiles}} {{.XTestGoFiles}}'
	mapfile -t packages < <(printf '%s/...\n' "${modules[@]}" | grep -vFx "$PWD/cmd/stapsdt/...")
	go vet "${packages[@]}"
	for cgo in 1 0; do CGO_ENABLED=$cgo go list -f "$format" ./... >"$temp/files$cgo"; done
	mapfile -t packages < <(comm -13 <(sort "$temp/files1") <(sort "$temp/files0") | cut -d ' ' -f 1)
	[ ${#packages[@]} -gt 0 ]
	CGO_ENABLED=0 go vet "${packages[@]}" ./cmd/stapsdt/...
	go vet -tags stapsdt_noload .
}

# assembled assembles what is for other architectures: two packages that import next to nothing, and a file that needs no constants
# of Go. Go for other architectures and systems is checked by internal/test/elsewhere.
assembled() {
	local arch
	for arch in $(git ls-files '*.s' | sed -n 's/.*_\([a-z0-9]*\)\.s$/\1/p' | sort -u | grep -vx linux); do
		GOARCH=$arch CGO_ENABLED=0 go build ./internal/call ./internal/recording/barrier
	done
	GOARCH=arm64 go tool asm -p price -I "$(go env GOROOT)/pkg/include" -o "$temp/assembled" cmd/stapsdt/internal/kernel/price/site_arm64.s
}

# tested CGO ARGUMENT... runs the short tests, as many packages at a time as pays off where most tests wait.
tested() {
	local cgo=$1
	shift
	CGO_ENABLED=$cgo go test -short -shuffle=on -vet=off -timeout 25m -p $(($(nproc) + 2)) "$@"
}

# uncoupled tests the root as its users build it, without the workspace and without cgo, and the tests of it that run programs.
uncoupled() {
	GOWORK=off tested 0 . ./internal/{image,region,recording,recording/recorder} ./proberec ./probesock
	tested 0 ./internal/test/{process,arguments}
}

# examples tests the examples that are modules.
examples() {
	local example
	for example in http lua wasm; do go test -C examples/$example -short -shuffle=on -vet=off ./...; done
}

demo() {
	scripts/demo.sh
	CGO_ENABLED=0 scripts/demo.sh
}

command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }
step "modules" scripts/lib/modules.sh &
step "tools" installed
wait
mapfile -t modules < <(GOPROXY=off go list -m -f '{{.Dir}}')
export GOPROXY=off # a module that is missing now is a defect of scripts/lib/modules.sh
# Two lanes: most tests wait for a tracer most of the time, and compilers do not. The first packages take longest.
step "go test" tested 1 ./internal/test/{command,gofunctions} ./internal/test/... ./instrument/{grpc,otel}probe/... ./... &
step "tree" tidy
step "gofmt" formatted
step "columns" scripts/lib/columns.sh
step "assembly of other architectures" assembled
step "go test, race detector" tested 1 -race "${raced[@]}"
if [ ! -e "$temp/lacking" ]; then
	step "the C library, plain and with sanitizers" env QUICK=yes make -C cstapsdt test
fi
step "go test, the command" tested 0 ./cmd/stapsdt/...
step "go vet" vetted
step "go test, without cgo" uncoupled
step "examples" examples
if [ "${CI:-}" = true ] || [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; then
	step "scripts/demo.sh" demo
else
	echo "skipped: scripts/demo.sh attaches tracers, which needs root"
fi
wait
# It rewrites files in their place, which no build may see.
step "generated files" generated
finish
