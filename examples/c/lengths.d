/*
 * A histogram of the lengths of the lines, and the first bytes of lines longer than 80.
 *
 *	dtrace -s lengths.d PID
 */
#pragma D option quiet

dtrace:::BEGIN
{
	printf("Tracing until Ctrl-C\n");
}

lines$1:::line-read
{
	@length = quantize(arg1);
}

lines$1:::line-read
/arg1 > 80/
{
	printf("line %d has %d bytes: %s\n", arg2, arg1, copyinstr(arg0, 40));
}
