//! What a key does to what is looked at.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use report::terminal::{Looks, Which};

/// What a key asks for beyond another look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// To end the run early.
    End,
    /// To stop the process, as a shell's Ctrl-Z.
    Stop,
    /// To end at once, as Ctrl-\ does.
    Quit,
    /// To draw all of it anew.
    Redraw,
}

/// Turns to what a key stands for, on a screen of so many rows whose page has so many lines beyond them.
pub fn turn(looks: &mut Looks, key: KeyEvent, rows: usize, beyond: usize) -> Option<Wish> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let page = rows.saturating_sub(2).max(1);
    let show = |looks: &mut Looks, which| {
        looks.which = if looks.which == which { Which::Run } else { which };
        looks.scrolled = 0;
    };
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Wish::End),
            KeyCode::Char('z') => Some(Wish::Stop),
            // Terminals send one and the same byte for both.
            KeyCode::Char('\\' | '4') => Some(Wish::Quit),
            KeyCode::Char('l') => Some(Wish::Redraw),
            _ => None,
        };
    }
    match key.code {
        KeyCode::Char('q') => return Some(Wish::End),
        KeyCode::Char('d') | KeyCode::Enter => show(looks, Which::Details),
        KeyCode::Char('?' | 'h') => show(looks, Which::Help),
        KeyCode::Esc => (looks.which, looks.scrolled) = (Which::Run, 0),
        KeyCode::Up | KeyCode::Char('k') => looks.scrolled = looks.scrolled.min(beyond).saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => looks.scrolled = (looks.scrolled + 1).min(beyond),
        KeyCode::PageUp => looks.scrolled = looks.scrolled.min(beyond).saturating_sub(page),
        KeyCode::PageDown | KeyCode::Char(' ') => looks.scrolled = (looks.scrolled + page).min(beyond),
        KeyCode::Home => looks.scrolled = 0,
        KeyCode::End => looks.scrolled = beyond,
        _ => {}
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(looks: &mut Looks, code: KeyCode) -> Option<Wish> {
        turn(looks, KeyEvent::new(code, KeyModifiers::NONE), 12, 25)
    }

    #[test]
    fn a_page_is_left_by_the_key_that_opened_it() {
        let mut looks = Looks::default();
        for (code, which) in [
            (KeyCode::Char('d'), Which::Details),
            (KeyCode::Enter, Which::Run),
            (KeyCode::Char('?'), Which::Help),
            (KeyCode::Char('d'), Which::Details),
            (KeyCode::Esc, Which::Run),
            (KeyCode::Char('x'), Which::Run),
        ] {
            assert_eq!(press(&mut looks, code), None);
            assert_eq!(looks.which, which, "{code:?}");
        }
    }

    #[test]
    fn scrolling_ends_where_the_page_does() {
        let mut looks = Looks { which: Which::Details, ..Looks::default() };
        for (code, scrolled) in [
            (KeyCode::Up, 0),
            (KeyCode::Down, 1),
            (KeyCode::PageDown, 11),
            (KeyCode::PageDown, 21),
            (KeyCode::PageDown, 25),
            (KeyCode::Down, 25),
            (KeyCode::PageUp, 15),
            (KeyCode::Home, 0),
            (KeyCode::End, 25),
        ] {
            press(&mut looks, code);
            assert_eq!(looks.scrolled, scrolled, "{code:?}");
        }
    }

    #[test]
    fn what_a_terminal_does_by_itself_is_done_for_it() {
        let mut looks = Looks::default();
        let mut control = |letter| turn(&mut looks, KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL), 12, 0);
        let wishes = ['c', 'z', '\\', '4', 'l', 'd'].map(&mut control);
        let [end, stop, quit, redraw] = [Wish::End, Wish::Stop, Wish::Quit, Wish::Redraw].map(Some);
        assert_eq!(wishes, [end, stop, quit, quit, redraw, None]);
        assert_eq!(press(&mut looks, KeyCode::Char('q')), end);
    }
}
