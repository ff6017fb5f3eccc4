/* The probes of CPython 3.11. */
provider python {
	probe function__entry(const char *, const char *, int);
	probe function__return(const char *, const char *, int);
	probe instance__new__start(const char *, const char *);
	probe line(const char *, const char *, int);
	probe gc__start(int);
	probe gc__done(long);
	probe import__find__load__start(const char *);
	probe import__find__load__done(const char *, int);
	probe audit(const char *, void *);
};

#pragma D attributes Evolving/Evolving/Common provider python provider
