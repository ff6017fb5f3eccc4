/* Some of the probes of Node.js 12, which its translators turn into structs. */
typedef struct { int dummy; } node_dtrace_connection_t;
typedef struct { int dummy; } node_dtrace_http_server_request_t;

provider node {
	probe net__server__connection(node_dtrace_connection_t *c, const char *a, int p, int fd) :
	    (node_connection_t *c, string a, int p, int fd);
	probe http__server__request(node_dtrace_http_server_request_t *h, node_dtrace_connection_t *c,
	    const char *a, int p, const char *m, const char *u, int fd) :
	    (node_http_request_t *h, node_connection_t *c, string a, int p, string m, string u, int fd);
	probe gc__start(int t, int f, void *isolate);
	probe gc__done(int t, int f, void *isolate);
};

#pragma D attributes Evolving/Evolving/ISA provider node provider
#pragma D attributes Private/Private/Unknown provider node module
