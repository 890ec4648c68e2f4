package load

import (
	"fmt"
	"strings"
)

// ContentBytes is the size of what CreateBody creates.
const ContentBytes = 1024

// CreateBody is a creation of a quick paste with ContentBytes of content.
func CreateBody() string {
	const line = "The quick brown fox jumps over the lazy dog and is home for tea. "
	return fmt.Sprintf(`{"title":"bench","content":%q}`, strings.Repeat(line, ContentBytes/len(line)+1)[:ContentBytes])
}
