/*
 * Shows the time in functions in microseconds: with what they called (inclusive) and without
 * (exclusive). Of a function that calls itself the outermost call counts as inclusive. The
 * time is that of the clock, waiting included. A call that began before the script does not
 * count.
 *
 * DTrace frees what becomes 0 by an assignment, but not by --.
 */
#pragma D option quiet

dtrace:::BEGIN
{
	printf("Tracing until Ctrl-C\n");
}

ENTRY
{
	depth[THREAD]++;
	began[THREAD, depth[THREAD]] = timestamp;
	called[THREAD, depth[THREAD]] = 0;
	within[THREAD, WHERE, NAME]++;
}

RETURN
/depth[THREAD]/
{
	this->d = depth[THREAD];
	this->ns = timestamp - began[THREAD, this->d];
	within[THREAD, WHERE, NAME] -= 1;
	@calls[WHERE, NAME] = count();
	@exclusive[WHERE, NAME] = sum((this->ns - called[THREAD, this->d]) / 1000);
	@inclusive[WHERE, NAME] = sum(within[THREAD, WHERE, NAME] == 0 ? this->ns / 1000 : 0);
	began[THREAD, this->d] = 0;
	called[THREAD, this->d] = 0;
	depth[THREAD] -= 1;
}

RETURN
/depth[THREAD]/
{
	called[THREAD, depth[THREAD]] += this->ns;
}

dtrace:::END
{
	printf("%9s %12s %12s  FUNCTION\n", "CALLS", "EXCLUSIVE", "INCLUSIVE");
	printa("%@9d %@12d %@12d  %s %s\n", @calls, @exclusive, @inclusive);
}
