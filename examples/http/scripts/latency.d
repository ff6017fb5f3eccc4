/*
 * Shows how long requests took, in microseconds, for each route, and their number by status.
 *
 *	dtrace -s scripts/latency.d PID
 */
#pragma D option quiet

dtrace:::BEGIN
{
	printf("Tracing until Ctrl-C\n");
}

/* arg2 nanoseconds, arg3 error, arg4 route, arg5 status */
shop$1:::request-end
{
	@microseconds[copyinstr(arg4)] = quantize(arg2 / 1000);
	@requests[copyinstr(arg4), arg5] = count();
}

dtrace:::END
{
	printa("%s%@d\n", @microseconds);
	printa("%s, status %d: %@d requests\n", @requests);
}
