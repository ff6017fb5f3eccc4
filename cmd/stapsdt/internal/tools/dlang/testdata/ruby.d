// Some of the probes of Ruby 3, with const types.
provider ruby {
	probe method__entry(const char *classname, const char *methodname, const char *filename, int lineno);
	probe method__return(const char *classname, const char *methodname, const char *filename, int lineno);
	probe array__create(long length, const char *filename, int lineno);
	probe raise(const char *classname, const char *filename, int lineno);
	probe gc__mark__begin();
	probe gc__mark__end();
	probe symbol__create(const char *str, const char *filename, int lineno);
};
