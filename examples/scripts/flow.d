/*
 * Shows the flow of calls: when (ns), the thread, and in or out, indented by the depth. Lines
 * that are printed by different processors may come in another order: sort -n.
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
	printf("%d %d %*s-> %s (%s:%d)\n", timestamp, THREAD, 2 * depth[THREAD], "", NAME, FILE, LINE);
}

RETURN
/depth[THREAD]/
{
	printf("%d %d %*s<- %s (%s:%d)\n", timestamp, THREAD, 2 * depth[THREAD], "", NAME, FILE, LINE);
	depth[THREAD] -= 1;
}
