# Boots a kernel under qemu, with a test binary as its first process; to be sourced, by bash.
#
#   initramfs DIRECTORY
#	prints the directory as an initramfs
#   test_guest DIRECTORY [ARCH]
#	builds a directory for initramfs, in which the tests of internal/test/kernels are
#	the first process and which has the command
#   boot ARCH KERNEL INITRAMFS MEGABYTES SECONDS FLAG...
#	boots the kernel with the parameters in $parameters, if any, runs the tests with the
#	flags, and prints the console
#   guest_passed CONSOLE
#	tells whether the tests came to their end and passed, and the kernel reported no fault
#	of its own

initramfs() { (cd "$1" && find . | cpio -o -H newc -R 0:0 --quiet); }

guest_passed() { grep -qx 'guest: passed' "$1" && ! grep -qE '(BUG|Oops|WARNING): |Call Trace:' "$1"; }

# The tests keep their DWARF, which describes the arguments of their functions.
test_guest() {
	local arch=${2:-amd64}
	mkdir -p "$1/usr/bin" &&
		CGO_ENABLED=0 GOARCH=$arch go build -trimpath -ldflags='-s -w' -o "$1/usr/bin/stapsdt" ./cmd/stapsdt &&
		CGO_ENABLED=0 GOARCH=$arch go test -c -trimpath -o "$1/init" ./internal/test/kernels
}

# It always emulates the processor, which works everywhere, also in a guest. The processor lacks
# cx16: with it, under qemu 7.2, one in seven boots of Linux 6.12 crashed, often right after a
# cmpxchg16b; without it none of as many did.
boot() {
	local arch=$1 kernel=$2 initrd=$3 memory=$4 seconds=$5 qemu console
	case $arch in
	amd64) qemu="qemu-system-x86_64 -M q35 -cpu max,-cx16" console=ttyS0 ;;
	arm64) qemu="qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on" console=ttyAMA0 ;;
	esac
	shift 5
	# shellcheck disable=SC2086 # several words
	timeout --foreground "$seconds" $qemu -accel tcg,thread=multi -smp 1 -m "$memory" -display none -nic none \
		-serial stdio -monitor none -no-reboot -kernel "$kernel" -initrd "$initrd" \
		-append "console=$console quiet panic=-1 ${parameters:-} -- -test.v -test.timeout=$((seconds - 60))s $*" </dev/null 2>&1 | tr -d '\r' ||
		echo "qemu exited with status ${PIPESTATUS[0]} (its time limit is $seconds s)"
}
