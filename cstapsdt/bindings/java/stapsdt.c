/* The native methods of Stapsdt.java: calls of libstapsdt, with the errors as exceptions. */
#include <jni.h>
#include <libstapsdt.h>

#include <stdlib.h>
#include <unistd.h>

static void *pointer(jlong address)
{
	return (void *)(intptr_t)address;
}

static void throw_new(JNIEnv *env, const char *class, const char *text)
{
	jclass found = (*env)->FindClass(env, class);

	if (found)
		(*env)->ThrowNew(env, found, text);
}

/* required throws the provider's error unless the call succeeded. */
static void required(JNIEnv *env, SDTProvider_t *provider, int good)
{
	if (!good)
		throw_new(env, "Stapsdt$ProbeException", provider ? providerError(provider) : "no provider");
}

JNIEXPORT jlong JNICALL Java_Stapsdt_init(JNIEnv *env, jclass class, jstring name)
{
	const char *text = (*env)->GetStringUTFChars(env, name, NULL);
	SDTProvider_t *provider;

	(void)class;
	if (!text)
		return 0;
	provider = providerInit(text);
	(*env)->ReleaseStringUTFChars(env, name, text);
	/* In a file, because bpftrace -p from 0.25 on does not find probes in memory. */
	required(env, provider, providerUseMemfd(provider, memfd_disabled) == 1);
	return (jlong)(intptr_t)provider;
}

JNIEXPORT jlong JNICALL Java_Stapsdt_addProbe(JNIEnv *env, jclass class, jlong provider,
					      jstring name, jobjectArray names, jintArray types)
{
	SDTArgument_t arguments[SDT_MAX_ARGUMENTS] = {{NULL, noarg}};
	jstring strings[SDT_MAX_ARGUMENTS];
	jint numbers[SDT_MAX_ARGUMENTS];
	jsize count = (*env)->GetArrayLength(env, types), read = 0;
	const char *text = (*env)->GetStringUTFChars(env, name, NULL);
	SDTProbe_t *probe = NULL;

	(void)class;
	if (!text)
		return 0;
	if (count <= SDT_MAX_ARGUMENTS) { /* else the library fails before it reads them */
		(*env)->GetIntArrayRegion(env, types, 0, count, numbers);
		for (; read < count; read++) {
			strings[read] = (*env)->GetObjectArrayElement(env, names, read);
			arguments[read].type = (ArgType_t)numbers[read];
			if (!(arguments[read].name = (*env)->GetStringUTFChars(env, strings[read], NULL)))
				goto done;
		}
	}
	probe = providerAddNamedProbe(pointer(provider), text, count, arguments);
	required(env, pointer(provider), probe != NULL);
done:
	while (read-- > 0)
		(*env)->ReleaseStringUTFChars(env, strings[read], arguments[read].name);
	(*env)->ReleaseStringUTFChars(env, name, text);
	return (jlong)(intptr_t)probe;
}

JNIEXPORT void JNICALL Java_Stapsdt_load(JNIEnv *env, jclass class, jlong provider)
{
	(void)class;
	required(env, pointer(provider), providerLoad(pointer(provider)) == 0);
}

/* While other threads fire, the file can be removed, but the provider cannot be unloaded. */
JNIEXPORT void JNICALL Java_Stapsdt_removeFile(JNIEnv *env, jclass class, jlong provider)
{
	const SDTProvider_t *loaded = pointer(provider);

	(void)env, (void)class;
	if (loaded->_filename)
		unlink(loaded->_filename);
}

JNIEXPORT jboolean JNICALL Java_Stapsdt_isEnabled(JNIEnv *env, jclass class, jlong probe)
{
	(void)env, (void)class;
	return (jboolean)probeIsEnabled(pointer(probe));
}

/* fire takes an array of words, and the bytes of the arguments that are strings. The bytes are
 * copied, and given a NUL, for as long as the probe fires. */
JNIEXPORT void JNICALL Java_Stapsdt_fire(JNIEnv *env, jclass class, jlong probe, jlongArray words,
					 jobjectArray strings)
{
	uint64_t values[SDT_MAX_ARGUMENTS] = {0};
	jbyte *copies[SDT_MAX_ARGUMENTS] = {NULL};
	jsize count = (*env)->GetArrayLength(env, words);

	(void)class;
	(*env)->GetLongArrayRegion(env, words, 0, count, (jlong *)values);
	for (jsize i = 0; i < count; i++) {
		jbyteArray bytes = (*env)->GetObjectArrayElement(env, strings, i);
		jsize length = bytes ? (*env)->GetArrayLength(env, bytes) : 0;

		if (!bytes)
			continue;
		if (!(copies[i] = calloc((size_t)length + 1, 1))) {
			throw_new(env, "java/lang/OutOfMemoryError", "copy a string");
			goto done;
		}
		(*env)->GetByteArrayRegion(env, bytes, 0, length, copies[i]);
		values[i] = (uint64_t)(uintptr_t)copies[i];
	}
	probeFireV(pointer(probe), values);
done:
	for (jsize i = 0; i < count; i++)
		free(copies[i]);
}
