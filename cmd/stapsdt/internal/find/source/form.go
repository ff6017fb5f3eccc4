//go:build linux

package source

// form is the encoding of an attribute (DWARF 5, 7.5.6).
type form uint64

const (
	formAddr          form = 0x01
	formBlock2        form = 0x03
	formBlock4        form = 0x04
	formData2         form = 0x05
	formData4         form = 0x06
	formData8         form = 0x07
	formString        form = 0x08
	formBlock         form = 0x09
	formBlock1        form = 0x0a
	formData1         form = 0x0b
	formFlag          form = 0x0c
	formSdata         form = 0x0d
	formStrp          form = 0x0e
	formUdata         form = 0x0f
	formRefAddr       form = 0x10
	formRef1          form = 0x11
	formRef2          form = 0x12
	formRef4          form = 0x13
	formRef8          form = 0x14
	formRefUdata      form = 0x15
	formIndirect      form = 0x16
	formSecOffset     form = 0x17
	formExprloc       form = 0x18
	formFlagPresent   form = 0x19
	formStrx          form = 0x1a
	formAddrx         form = 0x1b
	formRefSup4       form = 0x1c
	formStrpSup       form = 0x1d
	formData16        form = 0x1e
	formLineStrp      form = 0x1f
	formRefSig8       form = 0x20
	formImplicitConst form = 0x21
	formLoclistx      form = 0x22
	formRnglistx      form = 0x23
	formRefSup8       form = 0x24
	formStrx1         form = 0x25
	formStrx2         form = 0x26
	formStrx3         form = 0x27
	formStrx4         form = 0x28
	formAddrx1        form = 0x29
	formAddrx2        form = 0x2a
	formAddrx3        form = 0x2b
	formAddrx4        form = 0x2c
	formGNUAddrIndex  form = 0x1f01
	formGNUStrIndex   form = 0x1f02
	formGNURefAlt     form = 0x1f20
	formGNUStrpAlt    form = 0x1f21
)

// sizes are the sizes of the forms that have the same in all units.
var sizes = map[form]int{
	formData1: 1, formFlag: 1, formRef1: 1, formStrx1: 1, formAddrx1: 1,
	formData2: 2, formRef2: 2, formStrx2: 2, formAddrx2: 2, formStrx3: 3, formAddrx3: 3,
	formData4: 4, formRef4: 4, formStrx4: 4, formAddrx4: 4, formRefSup4: 4,
	formData8: 8, formRef8: 8, formRefSig8: 8, formRefSup8: 8, formData16: 16,
	formFlagPresent: 0, formImplicitConst: 0,
}

// encoding holds the sizes on which the values of a unit depend.
type encoding struct {
	version, address, word int
}

// size returns the size of a form, or -1 if it is not the same for all values.
func (e encoding) size(f form) int {
	switch f {
	case formAddr:
		return e.address
	case formStrp, formLineStrp, formSecOffset, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		return e.word
	case formRefAddr:
		if e.version <= 2 {
			return e.address
		}
		return e.word
	}
	if n, ok := sizes[f]; ok {
		return n
	}
	return -1
}

// value is the value of an attribute.
type value struct {
	form form // 0 without the attribute
	n    uint64
	text []byte // of formString, and of blocks
}

// read reads a value. size is the size of the form.
func (c *cursor) read(f form, size int, e encoding) value {
	v := value{form: f}
	switch {
	case size == 0:
		v.n = 1
	case size > 8:
		c.skip(uint64(size))
	case size > 0:
		v.n = c.uint(size)
	default:
		switch f {
		case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx,
			formGNUAddrIndex, formGNUStrIndex:
			v.n = c.uleb()
		case formSdata:
			v.n = uint64(c.sleb())
		case formString:
			v.text = c.text()
		case formBlock, formExprloc:
			v.text = c.block(c.uleb())
		case formBlock1:
			v.text = c.block(c.uint(1))
		case formBlock2:
			v.text = c.block(c.uint(2))
		case formBlock4:
			v.text = c.block(c.uint(4))
		case formIndirect:
			// A form that cannot follow this one is refused, because it could go on forever.
			if f = form(c.uleb()); f == formIndirect || f == formImplicitConst {
				c.end()
				return v
			}
			return c.read(f, e.size(f), e)
		default:
			c.end()
		}
	}
	return v
}
