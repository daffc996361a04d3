package cli

import "fmt"

// nearestHint proposes the word that is most like the one typed, or says
// otherwise what helps.
func nearestHint(prefix, typed string, words []string, otherwise string) string {
	if near := nearest(typed, words); near != "" {
		return fmt.Sprintf("did you mean `%s%s`?", prefix, near)
	}
	return otherwise
}

// nearest returns the most similar word, or nothing if none is near.
func nearest(typed string, words []string) string {
	if len(typed) > 64 {
		return ""
	}
	best, least := "", len(typed)/3+2
	for _, w := range words {
		if d := distance(typed, w); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance counts the bytes to insert, delete, replace or swap to get from a
// to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
