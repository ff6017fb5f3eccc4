/*
 * Counts calls by function. What a function belongs to comes first: its class, its package, or
 * its file.
 */
#pragma D option quiet

dtrace:::BEGIN
{
	printf("Tracing until Ctrl-C\n");
}

ENTRY
{
	@calls[WHERE, NAME] = count();
}
