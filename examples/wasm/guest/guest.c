// What runs in the sandbox. Made with clang and wasm-ld:
//
//	clang --target=wasm32 -O1 -nostdlib -Wl,--no-entry -o guest.wasm guest.c

#define EXPORT(name) __attribute__((export_name(name)))
#define CALLED __attribute__((noinline))

__attribute__((import_module("host"), import_name("sleep"))) void host_sleep(int milliseconds);

static CALLED int add(int a, int b)
{
	return a + b;
}

EXPORT("fib") CALLED int fib(int n)
{
	return n < 2 ? n : add(fib(n - 1), fib(n - 2));
}

static CALLED int quotient(int a, int b)
{
	return a / b; // traps when b is 0
}

EXPORT("divide") int divide(int a, int b)
{
	return add(quotient(a, b), 0);
}

static CALLED int wait(int milliseconds)
{
	host_sleep(milliseconds);
	return milliseconds;
}

EXPORT("nap") int nap(int milliseconds)
{
	return add(wait(milliseconds), wait(milliseconds));
}
