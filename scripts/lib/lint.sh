#!/usr/bin/env bash
# Runs the tools that find mistakes without a tracer: staticcheck, govulncheck, checkptr,
# the address and the memory sanitizer, clang's analyzer, and the linters of scripts and of CI's
# workflows. scripts/test.sh runs gofmt and vet. The race detector and valgrind run with the tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/lib/install.sh
. scripts/lib/install.sh

actionlint=github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.7.0
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.1.4

command -v go >/dev/null || { echo "Install Go 1.25 or later first: https://go.dev/dl" >&2; exit 1; }
need gcc=gcc clang=clang shellcheck=shellcheck /usr/include/libelf.h=libelf-dev
resources=$(clang -print-resource-dir) # of clang 14: .../lib/clang/14.0.6
version=$(basename "$resources")
need "$resources/include/sanitizer/msan_interface.h=libclang-rt-${version%%.*}-dev"

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
# shellcheck source=scripts/lib/check.sh
. scripts/lib/check.sh

# govulncheck's list of vulnerabilities is on the internet. Without it, nothing is known.
vulnerabilities() {
	local status=0
	timeout 120 "$temp/govulncheck" ./... >"$temp/vulnerabilities" 2>&1 || status=$?
	if [ $status -eq 124 ] || grep -q 'fetching vulnerabilities' "$temp/vulnerabilities"; then
		echo "not run: govulncheck: the list of vulnerabilities cannot be fetched"
	else
		check "govulncheck" reported $status
	fi
}
reported() { cat "$temp/vulnerabilities"; return "$1"; }

# sanitized PACKAGE: its tests, linked with the address sanitizer. A test binary
# that go test runs itself has no symbols, by which to know the leak below.
sanitized() {
	CC=gcc go test -asan -c -o "$temp/test" "$1"
	# cgosymbolizer, which only tests use, never frees the program's name; the
	# number is made of its import path.
	echo 'leak:_cgo_16071bd81a3c_Cfunc__Cmalloc' >"$temp/known"
	(cd "$1" && LSAN_OPTIONS=suppressions=$temp/known "$temp/test" -test.short)
}

analyzed() {
	local source
	for source in cstapsdt/*.c cstapsdt/{recorder,socket}/*.c; do
		clang --analyze --analyzer-output text -std=c11 -o "$temp/analysis" "$source"
	done >"$temp/analyzed" 2>&1
	cat "$temp/analyzed"
	[ ! -s "$temp/analyzed" ]
}

GOBIN=$temp persistently go install $staticcheck
GOBIN=$temp persistently go install $govulncheck
GOBIN=$temp persistently go install $actionlint
check "staticcheck" "$temp/staticcheck" ./...
check "staticcheck, CGO_ENABLED=0" env CGO_ENABLED=0 "$temp/staticcheck" . ./examples/hello # which have other files then
for module in internal/test cmd/stapsdt instrument/{grpc,otel}probe; do check "staticcheck, $module" env -C $module "$temp/staticcheck" ./...; done
vulnerabilities
check "checkptr" go test -short -gcflags=all=-d=checkptr . ./internal/call ./internal/region ./internal/image ./cstapsdt
for package in . ./cstapsdt ./internal/test/notes; do
	check "address sanitizer, $package" sanitized "$package"
done
check "memory sanitizer" env CC=clang go test -short -msan .
check "clang --analyze" analyzed
check "shellcheck" shellcheck -x -S warning -s bash scripts/*.sh scripts/lib/*.sh .ci/run
check "actionlint" "$temp/actionlint"
check "shellcheck, cstapsdt/tests" shellcheck -S error -s sh cstapsdt/tests/*.sh

verdict
