#!/usr/bin/env bash
# Runs the tools that find mistakes without running a tracer: vet, staticcheck,
# govulncheck, checkptr, the address sanitizer, clang's analyzer, shellcheck. The
# race detector and valgrind run with the tests.
#
# The memory sanitizer is not among them: it reports every byte that a library
# built without it has written, and libelf is one.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/install.sh
. scripts/install.sh

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.7.0
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.1.4

command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }
need gcc=gcc clang=clang shellcheck=shellcheck /usr/include/libelf.h=libelf-dev

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
# shellcheck source=scripts/check.sh
. scripts/check.sh

formatted() {
	local list
	list=$(gofmt -l .)
	[ -z "$list" ] || { echo "$list"; return 1; }
}

# in_module FOLDER COMMAND...: in a module of its own there.
in_module() (cd "$1" && shift && "$@")

# Its list of vulnerabilities is on the internet: a machine without is no failure.
vulnerabilities() {
	if timeout 120 go run $govulncheck ./... >"$temp/vulnerabilities" 2>&1; then
		echo "ok govulncheck"
		passed=$((passed + 1))
	elif grep -q 'fetching vulnerabilities' "$temp/vulnerabilities"; then
		echo "skip govulncheck: $(grep 'fetching vulnerabilities' "$temp/vulnerabilities")"
	else
		sed 's/^/# /' "$temp/vulnerabilities"
		echo "not ok govulncheck"
		failed=$((failed + 1))
	fi
}

# What converts pointers and crosses into C, without what waits for other
# processes.
pointers='Fuzz|TestConcurrentCalls|TestReload|TestLifecycle|TestNames$|TestGarbage|TestStrings|TestTyped|TestPointers|TestParkAndReuse|TestErrorsCross|TestIdle$|TestPatched|TestArguments$'

# sanitized PACKAGE: its tests, linked with the address sanitizer. A test binary
# that go test runs itself has no symbols, by which to know the leak below.
sanitized() {
	CC=gcc go test -asan -c -o "$temp/test" "$1"
	# cgosymbolizer, which only tests use, never frees the program's name; the
	# number is made of its import path.
	echo 'leak:_cgo_16071bd81a3c_Cfunc__Cmalloc' >"$temp/known"
	(cd "$1" && LSAN_OPTIONS=suppressions=$temp/known "$temp/test" -test.run "$pointers")
}

analyzed() {
	local source
	for source in cstapsdt/*.c; do
		clang --analyze --analyzer-output text -std=c11 -o "$temp/analysis" "$source"
	done >"$temp/analyzed" 2>&1
	cat "$temp/analyzed"
	[ ! -s "$temp/analyzed" ]
}

check "gofmt" formatted
for cgo in 1 0; do
	export CGO_ENABLED=$cgo
	check "go vet, CGO_ENABLED=$cgo" go vet ./...
	check "staticcheck, CGO_ENABLED=$cgo" go run $staticcheck ./...
done
unset CGO_ENABLED
check "go vet, internal/sandbox" in_module internal/sandbox go vet ./...
check "staticcheck, internal/sandbox" in_module internal/sandbox go run $staticcheck ./...
vulnerabilities
check "checkptr" go test -gcflags=all=-d=checkptr -run "$pointers" . ./internal/call ./internal/region ./internal/image ./cstapsdt
for package in . ./cstapsdt ./internal/image; do
	check "address sanitizer, $package" sanitized "$package"
done
check "clang --analyze" analyzed
check "shellcheck" shellcheck -x -S warning -s bash scripts/*.sh .ci/run
check "shellcheck, cstapsdt/tests" shellcheck -S error -s sh cstapsdt/tests/*.sh

verdict
