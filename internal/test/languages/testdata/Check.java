import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Collections;

public final class Check {
    private static final Stapsdt app = new Stapsdt("languages");
    private static final Stapsdt.Probe values = app.probe("values", Stapsdt.Type.STRING.named("text"),
        Stapsdt.Type.UINT8.named("byte"), Stapsdt.Type.INT8.named("tiny"), Stapsdt.Type.INT32.named("number"),
        Stapsdt.Type.UINT64.named("big"), Stapsdt.Type.INT64.named("low"));
    private static final Stapsdt.Probe texts = app.probe("texts", Stapsdt.Type.STRING.named("left"), Stapsdt.Type.STRING.named("right"));
    private static final Stapsdt.Probe none = app.probe("none");

    private static void refused(String name, Runnable call) {
        try {
            call.run();
            System.out.println(name + " accepted");
        } catch (RuntimeException error) {
            System.out.println(name + " " + error.getClass().getSimpleName());
        }
    }

    private static void wrong() {
        refused("late", () -> app.probe("late"));
        refused("count", () -> texts.fire("one"));
        refused("text", () -> texts.fire("one", 2));
        refused("number", () -> values.fire("one", "2", 3, 4, 5, 6));
        refused("large", () -> values.fire("one", 256, 3, 4, 5, 6));
        refused("small", () -> values.fire("one", 2, -129, 4, 5, 6));
        refused("fraction", () -> values.fire("one", 2, 3.5, 4, 5, 6));
    }

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        refused("nameless", () -> new Stapsdt(""));
        refused("many", () -> app.probe("many", Collections.nCopies(13, Stapsdt.Type.UINT8.named("a")).toArray(new Stapsdt.Argument[0])));
        values.fire("not loaded", 1, 1, 1, 1, 1);
        app.load();
        System.out.println("enabled " + values.isEnabled());
        wrong();
        System.out.println("ready");
        in.readLine();
        System.out.println("enabled " + values.isEnabled());
        wrong();
        values.fire("gr\u00fc\u00dfe", 200, -100, -2000000000, 9007199254740993L, -9007199254740993L);
        none.fire();
        for (int i = 0; i < 50; i++) texts.fire("left ".repeat(10) + i, "right ".repeat(8) + i);
        System.out.println("fired");
        in.readLine();
        System.out.println("enabled " + values.isEnabled());
        app.load();
        none.fire();
        if (args[0].equals("exit")) System.exit(3);
        if (args[0].equals("throw")) throw new IllegalStateException("thrown");
    }
}
