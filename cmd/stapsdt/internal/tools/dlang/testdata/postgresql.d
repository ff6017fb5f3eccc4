/* Some of the probes of PostgreSQL 15, which spells its types by macros. */
#define LocalTransactionId unsigned int
#define LWLockMode int
#define LOCKMODE int
#define BlockNumber unsigned int
#define Oid unsigned int
#define ForkNumber int
#define bool _Bool

provider postgresql {
	probe transaction__start(LocalTransactionId);
	probe transaction__commit(LocalTransactionId);
	probe lwlock__acquire(const char *, LWLockMode);
	probe lock__wait__start(unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, LOCKMODE);
	probe query__start(const char *);
	probe query__done(const char *);
	probe sort__start(int, bool, int, int, bool, int);
	probe sort__done(bool, long);
	probe buffer__read__start(ForkNumber, BlockNumber, Oid, Oid, Oid, int);
	probe buffer__read__done(ForkNumber, BlockNumber, Oid, Oid, Oid, int, bool);
	probe buffer__sync__done(int, int, int);
	probe buffer__checkpoint__sync__start();
	probe checkpoint__start(int);
	probe smgr__md__read__done(ForkNumber, BlockNumber, Oid, Oid, Oid, int, int, int);
};
