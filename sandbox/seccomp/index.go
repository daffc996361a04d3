package seccomp

// index finds numbers by name. It is a fixed hash table, since filling a map of 400 names
// took longer than the rest of Build, and a Build is part of each run's start.
type index struct {
	names []string
	slot  [1024]uint16 // number + 1; zero is empty. Twice the names at least, so a search ends.
}

func newIndex(names []string) *index {
	x := &index{names: names}
	for nr, name := range names {
		if name != "" {
			*x.find(name) = uint16(nr + 1)
		}
	}
	return x
}

// find returns the slot of name, or the empty slot where it would be.
func (x *index) find(name string) *uint16 {
	h := uint32(2166136261) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	for i := h ^ h>>16; ; i++ {
		s := &x.slot[i%uint32(len(x.slot))]
		if *s == 0 || x.names[*s-1] == name {
			return s
		}
	}
}

func (x *index) number(name string) (int, bool) {
	s := *x.find(name)
	return int(s) - 1, s != 0
}
