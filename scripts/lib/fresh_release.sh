#!/usr/bin/env bash
# Installs the files of a release on a machine that has nothing of what made them, and uses each:
# fresh.sh runs it as root on such a machine, and only there, because it installs.
#
#   fresh_release.sh VERSION FILES PROXY SOURCE
#
# FILES has the files of scripts/release.sh, PROXY the modules as a GOPROXY of files, and SOURCE is a clone.
set -euo pipefail
version=$1 files=$2 proxy=$3 source=$4 arch=$(dpkg --print-architecture) program=
cd "$(mktemp -d)"
trap '[ -z "$program" ] || kill "$program"' EXIT

# started CHECK COMMAND... starts a program and waits until the command sees its probes.
started() {
	local check=$1
	shift
	"$@" &
	program=$!
	for _ in $(seq 100); do
		"$check" list -p "$program" >listed 2>&1 && return
		sleep 0.1
	done
	cat listed
	return 1
}

stopped() {
	kill "$program"
	wait "$program" || true
	program=
}

# used COMMAND: the command watches the program in C by its socket and by the kernel, and reads its recording.
used() {
	local expected='app:tick .*text="hello" n=[0-9]+$' route
	rm -f use.rec
	started "$1" env STAPSDT_SOCKET=1 STAPSDT_RECORD=use.rec ./use
	for route in "-p $program --via socket" "-p $program --via kernel" "--from use.rec"; do
		echo "# $1 trace $route"
		# shellcheck disable=SC2086 # these are words
		timeout 20 "$1" trace $route app:tick -n 3 >seen
		[ "$(grep -cE "$expected" seen)" -eq 3 ]
	done
	stopped
}

sha256=$(cd "$files" && sha256sum --check SHA256SUMS)
[ "$(grep -c ': OK$' <<<"$sha256")" -eq "$(wc -l <"$files/SHA256SUMS")" ]

# The C library, found by pkg-config.
apt-get update -qq
apt-get install -y -qq pkg-config "$files"/libstapsdt{0,-dev}_*_"$arch".deb
cat >use.c <<'END'
#include <libstapsdt.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	const SDTArgument_t arguments[] = {{"text", sdt_string}, {"n", int32}};
	SDTProvider_t *app = providerInit("app");
	SDTProbe_t *tick = providerAddNamedProbe(app, "tick", 2, arguments);

	if (!tick || providerLoad(app) != 0)
		return fprintf(stderr, "%s\n", providerError(app)), 1;
	for (uint64_t n = 0;; n++) {
		probeFire(tick, (uint64_t)(uintptr_t)"hello", n);
		usleep(10000);
	}
}
END
# shellcheck disable=SC2046 # these are words
gcc -std=c11 -D_DEFAULT_SOURCE -Wall -Wextra -Werror -O2 -o use use.c $(pkg-config --cflags --libs libstapsdt)

# The archive, the Debian package, and the module, one after the other.
tar -xzf "$files/stapsdt-$version-linux-$arch.tar.gz"
used "$PWD/stapsdt-$version-linux-$arch/stapsdt"
dpkg -i "$files/stapsdt_${version#v}_$arch.deb"
used /usr/bin/stapsdt
dpkg --purge stapsdt
export GOPROXY="file://$proxy,$GOPROXY" GONOSUMDB=github.com/go-stapsdt GOFLAGS=-modcacherw GOTOOLCHAIN=local
CGO_ENABLED=0 GOBIN=$PWD/bin go install -ldflags '-s -w' "github.com/go-stapsdt/stapsdt/cmd/stapsdt@$version"
used "$PWD/bin/stapsdt"

# The library: README's program, with and without cgo.
mkdir myapp
sed -n '/^```go$/,/^```$/p' "$source/README.md" | sed '/^```/d' >myapp/main.go
cd myapp
go mod init myapp
go get "github.com/go-stapsdt/stapsdt@$version"
for cgo in 1 0; do
	CGO_ENABLED=$cgo go build -o myapp .
	started ../bin/stapsdt ./myapp
	[ "$(grep -cE 'myapp:request__(start|done)\(id int64, path string' ../listed)" -eq 2 ] || grep . listed
	stopped
done
cd ..

# The plugin of kubectl.
ln -s stapsdt bin/kubectl-stapsdt
bin/kubectl-stapsdt --help | grep -F 'kubectl stapsdt'
if bin/kubectl-stapsdt list -p shop/web 2>refused; then exit 1; fi
grep -F kubectl refused
