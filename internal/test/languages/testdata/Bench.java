import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;

/** Measures calls on command: "fire 1000" prints the nanoseconds of each of 1000. */
public final class Bench {
    private static final Stapsdt app = new Stapsdt("languages");
    private static final Stapsdt.Probe probe = app.probe("bench", Stapsdt.Type.STRING.named("path"), Stapsdt.Type.INT32.named("number"));
    private static int last;

    private static void nothing(String text, int number) {
        last = number;
    }

    private static void call(String name, int calls) {
        switch (name) {
            case "empty":
                for (int i = 0; i < calls; i++) nothing("/index.html", i);
                break;
            case "enabled":
                for (int i = 0; i < calls; i++) if (probe.isEnabled()) last = i;
                break;
            default:
                for (int i = 0; i < calls; i++) probe.fire("/index.html", i);
        }
    }

    public static void main(String[] args) throws IOException {
        app.load();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line; (line = in.readLine()) != null;) {
            String[] words = line.split(" ");
            int calls = Integer.parseInt(words[1]);
            long start = System.nanoTime();
            call(words[0], calls);
            System.out.println("took " + (double) (System.nanoTime() - start) / calls);
        }
    }
}
