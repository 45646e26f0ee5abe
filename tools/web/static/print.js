// Prepares a page of the site for paper: folds and solutions stand at its end, in numbered answers.
({prefix, solutions}) => {
  const article = document.querySelector("article");
  const element = (tag, text) => Object.assign(document.createElement(tag), {textContent: text});
  const appendix = (title, id) => {
    const section = document.createElement("section");
    section.append(Object.assign(element("h2", title), {id}));
    return section;
  };

  for (const fold of article.querySelectorAll("details.hide")) fold.remove(); // hidden code

  const right = appendix("Answers to the self-test", "answers-to-the-self-test");
  const letters = new Map();
  for (const part of document.querySelectorAll("#self-test > p, #self-test > details")) {
    const question = part.tagName === "P" && part.textContent.match(/^(\d)\. /);
    if (question) letters.set("current", question[1]);
    if (part.tagName !== "DETAILS") continue;
    const [summary, ...reasons] = part.children;
    part.replaceWith(element("p", summary.textContent));
    if (!/^\s*Right\b/.test(reasons.map(each => each.textContent).join(" "))) continue;
    const letter = summary.textContent.trim()[0];
    reasons[0].prepend(`${letters.get("current")}. ${letter}. `);
    right.append(...reasons);
  }

  const answers = appendix("Answers", "answers-of-this-lesson");
  let number = 0;
  for (const fold of article.querySelectorAll("details")) {
    if (answers.contains(fold) || !fold.isConnected) continue;
    number += 1;
    const [summary, ...content] = fold.children;
    const link = Object.assign(element("a", `${summary.textContent.trim()}: number ${number} at the end`), {
      href: `#answer-${number}`,
    });
    const line = document.createElement("p");
    line.append(link);
    fold.replaceWith(line);
    answers.append(Object.assign(element("h3", `${number}. ${summary.textContent.trim()}`), {
      id: `answer-${number}`,
    }), ...content);
  }

  const solved = appendix("Solutions", "solutions-of-this-lesson");
  for (const [name, code] of solutions) {
    const box = document.createElement("div");
    box.className = "highlight";
    box.append(element("pre", code));
    solved.append(element("h3", name), box);
  }

  for (const section of [right, answers, solved]) {
    if (section.children.length > 1) article.append(section);
  }

  // Pages of several lessons are bound together: each anchor has the name of its lesson before it.
  for (const target of article.querySelectorAll("[id]")) {
    if (!target.closest("svg")) target.id = `${prefix}-${target.id}`;
  }
  for (const link of article.querySelectorAll('a[href^="#"]')) {
    link.setAttribute("href", `#${prefix}-${decodeURIComponent(link.getAttribute("href").slice(1))}`);
  }
}
