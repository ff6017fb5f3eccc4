/*
 * Shows each task of an example, how long tasks took, in microseconds, and their least result.
 *
 *	dtrace -s tasks.d PID
 */
#pragma D option quiet

dtrace:::BEGIN
{
	printf("Tracing until Ctrl-C\n");
}

/* arg0 name, arg1 microseconds, arg2 result */
tasks$1:::task-done
{
	printf("%s %d us\n", copyinstr(arg0), arg1);
	@microseconds = quantize(arg1);
	@least = min((int32_t)arg2);
}

dtrace:::END
{
	printa("microseconds%@d\n", @microseconds);
	printa("least result %@d\n", @least);
}
