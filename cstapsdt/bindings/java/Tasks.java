/** Works on tasks, and fires a probe after each: see README.md. */
public final class Tasks {
    public static void main(String[] args) throws InterruptedException {
        Stapsdt tasks = new Stapsdt("tasks");
        Stapsdt.Probe done = tasks.probe("task__done", Stapsdt.Type.STRING.named("task"),
            Stapsdt.Type.UINT64.named("microseconds"), Stapsdt.Type.INT32.named("result"));
        try {
            tasks.load();
        } catch (Stapsdt.ProbeException error) {
            System.out.println("no probes: " + error.getMessage()); // and continue
        }
        System.out.println("process " + ProcessHandle.current().pid() + " works");
        for (int number = 1;; number++) {
            long start = System.nanoTime();
            Thread.sleep(50);
            done.fire("task " + number, (System.nanoTime() - start) / 1000, -number);
        }
    }
}
