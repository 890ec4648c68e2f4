package witness

import (
	"bytes"
	"testing"
)

// FuzzParseRequest: what the parser accepts has one spelling, and no body ends the process.
func FuzzParseRequest(f *testing.F) {
	l := newLog(f, origin).grow(9, "a")
	for _, seed := range [][]byte{
		l.body(0, 0), l.body(0, 9), l.body(3, 9), l.body(9, 9), formatRequest(7, l.proof(3, 9), l.checkpoint(9, "one\n", "two\n")),
		nil, []byte("old 0\n\n"), []byte("old 9223372036854775807\nAAAA\n\nx\n1\nAA==\n\n— x AAAAAAA=\n"),
		// The example of the specification.
		[]byte(`old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5Rovnzv++qbSzm9Q=
`),
	} {
		f.Add(seed)
	}
	s := open(f, f.TempDir(), l.key)
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseRequest(body)
		if err == nil && !bytes.Equal(formatRequest(r.old, r.proof, r.note), body) {
			t.Errorf("%q has another spelling", body)
		}
		if err == nil && (r.old < 0 || r.old > maxSize || r.checkpoint.tree.N < 0 || r.checkpoint.tree.N > maxSize || len(r.proof) > maxProof || r.checkpoint.origin == "") {
			t.Errorf("%q is accepted: %+v", body, r)
		}
		if _, failed := s.add(t.Context(), bytes.NewReader(body)); err != nil && failed == nil {
			t.Errorf("%q is malformed, and cosigned", body)
		}
	})
}

func TestTheExampleOfTheSpecificationIsParsed(t *testing.T) {
	r, err := parseRequest([]byte("old 20852014\nPlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=\n\nexample.com/behind-the-sofa\n20852163\n" +
		"CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n— example.com/behind-the-sofa " +
		"Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"))
	if err != nil || r.old != 20852014 || len(r.proof) != 1 || r.checkpoint.origin != "example.com/behind-the-sofa" || r.checkpoint.tree.N != 20852163 {
		t.Errorf("%+v, %v", r, err)
	}
}
