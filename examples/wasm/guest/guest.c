// The program that runs in the sandbox. It is made with clang and wasm-ld:
//
//	clang --target=wasm32 -O1 -nostdlib -Wl,--no-entry -o guest.wasm guest.c

#define EXPORT(name) __attribute__((export_name(name)))
#define CALLED __attribute__((noinline))

__attribute__((import_module("host"), import_name("sleep"))) void host_sleep(int milliseconds);
__attribute__((import_module("host"), import_name("hold"))) void host_hold(int milliseconds);
__attribute__((import_module("host"), import_name("acquire"))) void host_acquire(void);

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

static CALLED char *allocate(int bytes)
{
	const int page = 65536;
	return (char *)(__builtin_wasm_memory_grow(0, (bytes + page - 1) / page) * page);
}

static CALLED int fill(volatile char *memory, int bytes)
{
	for (int i = 0; i < bytes; i++)
		memory[i] = 1;
	return bytes;
}

EXPORT("buffer") int buffer(int bytes)
{
	return fill(allocate(bytes), bytes);
}

static CALLED int critical(void)
{
	host_acquire(); // waits until the host no longer holds the lock
	return 1;
}

EXPORT("lock") int lock(int milliseconds)
{
	host_hold(milliseconds);
	return critical();
}

static CALLED int spin(int n)
{
	volatile int sum = 0;
	for (int i = 0; i < n; i++)
		sum += i;
	return sum;
}

EXPORT("work") int work(int n)
{
	spin(n);
	return 1;
}
