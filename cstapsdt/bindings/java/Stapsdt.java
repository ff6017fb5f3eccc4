import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Objects;

/**
 * USDT probes for Java, through libstapsdt.so.0 and the Java Native Interface.
 *
 * <pre>
 *     Stapsdt app = new Stapsdt("myapp");
 *     Stapsdt.Probe done = app.probe("request__done", Type.STRING.named("path"), Type.INT32.named("status"));
 *     app.load();
 *     done.fire("/index.html", 200);
 * </pre>
 *
 * A Stapsdt is a provider: a set of probes that are loaded together. It lives as long as the
 * program. Its methods may be called by one thread at a time, those of its probes by any.
 */
public final class Stapsdt {
    /** An error of the library, with its text. */
    public static final class ProbeException extends RuntimeException {
        private static final long serialVersionUID = 1;

        public ProbeException(String text) {
            super(text);
        }
    }

    /**
     * The type of an argument. A string is passed as the address of bytes that end with a NUL:
     * str(arg0) in bpftrace. A UINT64 is any long, as its bits.
     */
    public enum Type {
        STRING(16), UINT8(1), UINT16(2), UINT32(4), UINT64(8),
        INT8(-1), INT16(-2), INT32(-4), INT64(-8);

        private final int number; // the library's

        Type(int number) {
            this.number = number;
        }

        /** Returns an argument of this type. */
        public Argument named(String name) {
            return new Argument(Objects.requireNonNull(name), this);
        }

        private void check(Object value) {
            if (this == STRING) {
                if (!(value instanceof String)) throw new IllegalArgumentException(value + " is no String");
                return;
            }
            if (!(value instanceof Long || value instanceof Integer
                    || value instanceof Short || value instanceof Byte))
                throw new IllegalArgumentException(value + " is no integer");
            int unused = 64 - 8 * Math.abs(number);
            long word = ((Number) value).longValue(), shifted = word << unused;
            if (word != (number > 0 ? shifted >>> unused : shifted >> unused))
                throw new IllegalArgumentException(word + " is no " + this);
        }
    }

    /** An argument of a probe. {@link Type#named} returns one. */
    public static final class Argument {
        private final String name;
        private final Type type;

        private Argument(String name, Type type) {
            this.name = name;
            this.type = type;
        }
    }

    /** A probe. {@link Stapsdt#probe} returns one. */
    public static final class Probe {
        private final long address;
        private final String name;
        private final Type[] types;

        private Probe(long address, String name, Type[] types) {
            this.address = address;
            this.name = name;
            this.types = types;
        }

        /** Reports whether a tracer is attached, or the probe is recorded or watched. */
        public boolean isEnabled() {
            return Stapsdt.isEnabled(address);
        }

        /**
         * Reports an event. The values are checked whether a tracer is attached or not, so that a
         * wrong one throws its exception in tests too.
         */
        public void fire(Object... values) {
            if (values.length != types.length)
                throw new IllegalArgumentException(name + " takes " + types.length
                    + " arguments, but " + values.length + " were given");
            for (int i = 0; i < types.length; i++) types[i].check(values[i]);
            if (!isEnabled()) return;
            long[] words = new long[types.length];
            byte[][] strings = new byte[types.length][];
            for (int i = 0; i < types.length; i++) {
                if (types[i] == Type.STRING)
                    strings[i] = ((String) values[i]).getBytes(StandardCharsets.UTF_8);
                else words[i] = ((Number) values[i]).longValue();
            }
            Stapsdt.fire(address, words, strings);
        }
    }

    static {
        System.loadLibrary("stapsdtjni");
    }

    private final long address;

    /** Makes a provider without probes. */
    public Stapsdt(String name) {
        address = init(Objects.requireNonNull(name));
    }

    /** Adds a probe. The provider must not be loaded. */
    public Probe probe(String name, Argument... arguments) {
        Type[] types = Arrays.stream(arguments).map(argument -> argument.type).toArray(Type[]::new);
        int[] numbers = Arrays.stream(types).mapToInt(type -> type.number).toArray();
        String[] names = Arrays.stream(arguments).map(argument -> argument.name)
            .toArray(String[]::new);
        long probe = addProbe(address, Objects.requireNonNull(name), names, numbers);
        return new Probe(probe, name, types);
    }

    /**
     * Shows the probes to tracers. Their file is removed when the program ends, also by SIGTERM.
     */
    public void load() {
        load(address);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> removeFile(address)));
    }

    private static native long init(String name);
    private static native long addProbe(long provider, String name, String[] names, int[] types);
    private static native void load(long provider);
    private static native void removeFile(long provider);
    private static native boolean isEnabled(long probe);
    private static native void fire(long probe, long[] words, byte[][] strings);
}
